#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/controller/controller.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker {
namespace {

using collectives::Secret;
using coordinator::PortFile;

/// Returns the address of the workers and the secret.
Result<PortFile> find(const std::string& where, const Settings& settings) {
  const bool address = where.find('/') == std::string::npos && where.find(':') != std::string::npos;
  PortFile out;
  if (address) {
    const auto endpoint = collectives::Endpoint::parse(where);
    if (!endpoint) return endpoint.error();
    out.endpoint = *endpoint;
  } else {
    const std::string file = where.empty() ? settings.cache_dir + "/workers.address" : where;
    auto found = PortFile::read(file, kWorkersFile);
    if (!found) return found.error();
    out = *std::move(found);
  }
  if (settings.token.empty() && settings.token_file.empty()) {
    if (out.secret) return out;
    return Status{Code::Version,
                  fmt::format("the workers at {} ask for a secret, and none is known; give their "
                              "address file in place of their address, or LOCKSTEP_TOKEN_FILE, or "
                              "LOCKSTEP_TOKEN",
                              out.endpoint.text())};
  }
  auto secret = settings.token.empty() ? collectives::read_secret(settings.token_file)
                                       : collectives::secret_of(settings.token, "LOCKSTEP_TOKEN");
  if (!secret) return secret.error();
  out.secret = *std::move(secret);
  return out;
}

/// Returns why the array cannot be sent; nullopt if it can.
std::optional<Status> misfit(const Array& array) {
  if (!array) return bad_input("an empty array is put on the workers; give it a value");
  if (array.bytes() <= kMostMessageBytes / 2) return std::nullopt;
  return bad_input(
      fmt::format("a tensor of {} bytes is put on the workers, and at most {} are sent; "
                  "have them read it from files",
                  array.bytes(), kMostMessageBytes / 2));
}

TensorBytes bytes_of(const Array& array) {
  return {array.dtype(), array.sizes(),
          std::string(static_cast<const char*>(array.data()), array.bytes())};
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::connect(const std::string& where,
                                                        const ControllerOptions& options) {
  const auto settings = Settings::from_environment();
  if (!settings) return settings.error();
  const auto found = find(where, *settings);
  if (!found) return found.error();
  auto session = ControllerSession::open(found->endpoint, *found->secret, options);
  if (!session) return session.error();
  return std::unique_ptr<Controller>(new Controller(*std::move(session)));
}

Controller::Controller(std::unique_ptr<ControllerSession> session)
    : session_(std::move(session)),
      frames_(session_->held().frames),
      taken_(frames_.size(), false) {
  for (const HeldTensor& held : session_->held().tensors)
    kept_.push_back({held.label, remote_tensor(held.handle, held.dtype)});
}

std::vector<KeptTensor> Controller::take_over() {
  const std::scoped_lock lock(taking_over_);
  return std::exchange(kept_, {});
}

Result<Tensor> Controller::put(const Array& tensor, const std::string& label) {
  const auto turn = session_->enter("put()");
  if (!turn) return turn.error();
  if (auto wrong = misfit(tensor)) return *wrong;
  const Handle handle = session_->new_handles(1);
  if (auto given = session_->give(PutTensor{handle, label, {}, bytes_of(tensor)}, label); !given)
    return given.error();
  return remote_tensor(handle, tensor.dtype());
}

Result<Tensor> Controller::put(const std::vector<Array>& each, const std::string& label) {
  const auto turn = session_->enter("put()");
  if (!turn) return turn.error();
  if (each.size() != static_cast<std::size_t>(workers()))
    return bad_input(
        fmt::format("{} tensors are put on {} workers; give one for each", each.size(), workers()));
  for (std::size_t worker = 0; worker < each.size(); ++worker) {
    if (auto wrong = misfit(each[worker])) return *wrong;
    if (each[worker].dtype() != each[0].dtype() ||
        each[worker].sizes().size() != each[0].sizes().size())
      return bad_input(
          fmt::format("the tensor for worker {} has another dtype or another number of dims "
                      "than that for worker 0",
                      worker));
  }
  const Handle handle = session_->new_handles(1);
  Tensor out = remote_tensor(handle, each[0].dtype());  // its handle is dropped if a give() fails
  for (std::size_t worker = 0; worker < each.size(); ++worker) {
    auto given = session_->give(
        PutTensor{handle, label, Rank{static_cast<std::int32_t>(worker)}, bytes_of(each[worker])},
        label);
    if (!given) return given.error();
  }
  return out;
}

Result<std::map<std::string, Tensor>> Controller::read(const std::string& path,
                                                       const std::vector<std::string>& names) {
  const auto turn = session_->enter("read()");
  if (!turn) return turn.error();
  ReadTensors read{path, {}};
  for (const std::string& name : names) read.tensors.emplace_back(name, session_->new_handles(1));
  const auto tensors = read.tensors;
  if (auto given = session_->give(std::move(read), "tensors of " + path); !given)
    return given.error();
  std::map<std::string, Tensor> out;
  for (const auto& [name, handle] : tensors)  // all are dropped if one cannot be read
    out.emplace(name, remote_tensor(handle, DType::F32));
  for (const auto& [name, handle] : tensors) {
    const auto told = session_->ask<SizesAnswer>(AskSizes{session_->new_question(), handle}, name);
    if (!told) return told.error();
    if (told->failure) return *told->failure;
    Tensor& tensor = out.at(name);
    tensor = Tensor(Array::unsized(told->dtype, tensor.array().far_memory()));
  }
  return out;
}

Result<Handle> Controller::remote(const Tensor& tensor) const {
  if (tensor.traced() || tensor.empty()) return bad_input("the tensor is none of the workers'");
  const auto handle = handle_of(tensor.array(), session_->dropped());
  if (!handle) return handle.error();
  if (*handle) return **handle;
  return bad_input("the tensor is this process's own; look at it with array()");
}

Result<Array> Controller::fetch(const Tensor& tensor, int worker) {
  const auto turn = session_->enter("fetch()");
  if (!turn) return turn.error();
  const auto handle = remote(tensor);
  if (!handle) return handle.error();
  if (worker < 0 || worker >= workers())
    return bad_input(fmt::format("there is no worker {}; there are {}", worker, workers()));
  const auto told = session_->ask<TensorAnswer>(
      FetchTensor{session_->new_question(), *handle, Rank{worker}}, "a tensor");
  if (!told) return told.error();
  if (told->failure) return *told->failure;
  Array out(told->tensor.dtype, told->tensor.sizes);
  if (!told->tensor.elements.empty())
    std::memcpy(out.data(), told->tensor.elements.data(), told->tensor.elements.size());
  return out;
}

Result<std::vector<std::vector<std::int64_t>>> Controller::sizes(const Tensor& tensor) {
  const auto turn = session_->enter("sizes()");
  if (!turn) return turn.error();
  const auto handle = remote(tensor);
  if (!handle) return handle.error();
  auto told = session_->ask<SizesAnswer>(AskSizes{session_->new_question(), *handle}, "sizes");
  if (!told) return told.error();
  if (told->failure) return *told->failure;
  return std::move(told->sizes);
}

Result<FrameNumber> Controller::frame_number(const std::string& name) {
  const auto found = std::ranges::find(frames_, name, &HeldFrame::name);
  const auto place = static_cast<std::size_t>(found - frames_.begin());
  if (found != frames_.end() && (taken_[place] || !found->digest.empty()))
    return bad_input(
        fmt::format("the workers have a frame {} already; give another frame another name", name));
  const FrameNumber number{static_cast<std::uint32_t>(place)};
  if (found == frames_.end()) {
    if (auto given = session_->give(MakeFrame{number, name}, "frame " + name); !given)
      return given.error();
    frames_.push_back({name, {}});
    taken_.push_back(false);
  }
  taken_[place] = true;
  return number;
}

Result<RemoteProgram> Controller::load(const std::string& path) {
  const auto turn = session_->enter("load()");
  if (!turn) return turn.error();
  // Stand-ins are enough here: the workers refuse own ops that they do not know.
  const auto program = read_program(path, {.known = {}, .stand_ins = true});
  if (!program) return program.error();
  auto bytes = encode(*program);
  if (!bytes) return bytes.error();
  const std::string digest = coordinator::content_digest(*bytes);
  const ProgramShape shape = program_shape(*program);
  const auto found = std::ranges::find(frames_, digest, &HeldFrame::digest);
  if (found != frames_.end())  // the workers have the program
    return RemoteProgram(*session_, program->frame,
                         FrameNumber{static_cast<std::uint32_t>(found - frames_.begin())}, shape);
  const FrameNumber number{static_cast<std::uint32_t>(frames_.size())};
  ShipProgram ship{digest, {reinterpret_cast<const char*>(bytes->data()), bytes->size()}};
  if (auto given = session_->give(std::move(ship), path); !given) return given.error();
  if (auto given = session_->give(LoadFrame{number, digest, path}, path); !given)
    return given.error();
  frames_.push_back({program->frame, digest});
  taken_.push_back(true);
  if (auto loaded = settle(); !loaded) return loaded.error();
  return RemoteProgram(*session_, program->frame, number, shape);
}

Result<void> Controller::settle() {
  const auto turn = session_->enter("settle()");
  if (!turn) return turn.error();
  const auto done = session_->ask<Done>(Settle{session_->new_question()}, "all before it");
  return done ? Result<void>() : Result<void>(done.error());
}

Result<void> Controller::finish() {
  const auto turn = session_->enter("finish()");
  if (!turn) return turn.error();
  const auto done = session_->ask<Done>(Finish{session_->new_question()}, "the end");
  return done ? Result<void>() : Result<void>(done.error());
}

}  // namespace lockstep::worker
