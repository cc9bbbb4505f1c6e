// A worker's commands for tensors: put, read, fetch, sizes.
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/controller/workers/command_batch.h>
#include <lockstep/worker/controller/workers/worker_loop.h>
#include <lockstep/worker/files/safetensors/file.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {
namespace {

/// Most bytes of a fetched tensor: leaves room for the other fields of an answer.
constexpr std::size_t kMostFetched = kMostMessageBytes - 64 * 1024;

Array array_of(const TensorBytes& tensor) {
  Array out(tensor.dtype, tensor.sizes);
  if (!tensor.elements.empty())
    std::memcpy(out.data(), tensor.elements.data(), tensor.elements.size());
  return out;
}

Status with_context(const Status& why, std::string_view what) {
  return {why.code, fmt::format("{}: {}", what, why.message), why.source, why.groups};
}

/// Reads the tensors of this worker's file. Other workers may succeed when this one fails.
Result<std::vector<Array>> read_own(const ReadTensors& read, int rank) {
  std::string path = read.path;
  constexpr std::string_view kRank = "{rank}";
  for (std::size_t at = path.find(kRank); at != path.npos; at = path.find(kRank, at))
    path.replace(at, kRank.size(), std::to_string(rank));
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  std::vector<Array> out;
  for (const auto& [name, handle] : read.tensors) {
    auto array = file->read(name);
    if (!array) return array.error();
    out.push_back(*std::move(array));
  }
  return out;
}

}  // namespace

Result<void> WorkerLoop::on(const PutTensor& put) {
  if (!put.only) {
    if (auto added = tensors_.add(put.handle, {array_of(put.tensor), {}, put.label}); !added)
      fail(added.error());
    return {};
  }
  TensorTable::Slot& slot = tensors_.shared(put.handle, put.label);
  if (put.only->value >= job_.size()) {
    slot.failure = bad_input(fmt::format("{} is for worker {}, and there are {}", put.label,
                                         put.only->value, job_.size()));
    fail(*slot.failure);
  } else if (put.only->value == job_.rank()) {
    slot.array = array_of(put.tensor);
  }
  return {};
}

Result<void> WorkerLoop::on(const ReadTensors& read) {
  auto own = read_own(read, job_.rank());
  std::optional<Status> mine;
  if (!own)
    mine =
        with_context(own.error(), fmt::format("worker {} cannot read {}", job_.rank(), read.path));
  const auto failure = first_failure(workers(), mine);
  if (!failure) return failure.error();
  if (*failure) fail(**failure);
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    const auto& [name, handle] = read.tensors[i];
    TensorTable::Slot slot{Array(), {}, name};
    if (*failure)
      slot.failure = **failure;
    else
      slot.array = std::move((*own)[i]);
    if (auto added = tensors_.add(handle, std::move(slot)); !added) fail(added.error());
  }
  return {};
}

/// Returns this worker's tensor as an answer.
TensorAnswer WorkerLoop::own_answer(const FetchTensor& fetch, const Array& array) const {
  TensorAnswer out{fetch.question, {}, {}};
  if (!array) {
    out.failure = bad_input(fmt::format("the tensor was not put on worker {}", fetch.worker.value));
    return out;
  }
  if (array.bytes() > kMostFetched) {
    out.failure =
        bad_input(fmt::format("the tensor has {} bytes, and at most {} are fetched; fetch "
                              "parts that a frame cuts out",
                              array.bytes(), kMostFetched));
    return out;
  }
  try {
    out.tensor = {array.dtype(), array.sizes(),
                  std::string(static_cast<const char*>(array.data()), array.bytes())};
  } catch (const std::runtime_error& error) {  // a device that has failed
    out.failure = environment_error(error.what());
  }
  return out;
}

Result<void> WorkerLoop::on(const FetchTensor& fetch) {
  auto array = tensors_.array(fetch.handle);
  if (array && fetch.worker.value >= job_.size())
    array = bad_input(
        fmt::format("there is no worker {}; there are {}", fetch.worker.value, job_.size()));
  if (!array) {  // the error is the same on all workers
    reply(TensorAnswer{fetch.question, array.error(), {}});
    return {};
  }
  const bool mine = fetch.worker.value == job_.rank();
  Bytes answer;
  if (mine) answer = encode(Reply(own_answer(fetch, *array)));
  const auto brought = to_worker_0(workers(), std::move(answer), fetch.worker);
  if (!brought) return brought.error();
  if (!lead_) return {};
  auto told = decode_reply(*brought);
  if (!told || !std::holds_alternative<TensorAnswer>(*told))
    return internal_error(fmt::format("worker {} gives what is no tensor", fetch.worker.value));
  reply(*told);
  return {};
}

Result<void> WorkerLoop::on(const AskSizes& ask) {
  const auto array = tensors_.array(ask.handle);
  if (!array) {
    reply(SizesAnswer{ask.question, array.error(), {}, {}});
    return {};
  }
  SizesAnswer mine{ask.question, {}, array->dtype(), {array->sizes()}};
  const auto join = [](std::span<const std::byte> lower, std::span<const std::byte> higher) {
    auto a = decode_reply(lower), b = decode_reply(higher);
    auto* below = a ? std::get_if<SizesAnswer>(&*a) : nullptr;
    const auto* above = b ? std::get_if<SizesAnswer>(&*b) : nullptr;
    if (below == nullptr || above == nullptr) return Bytes{};
    below->sizes.insert(below->sizes.end(), above->sizes.begin(), above->sizes.end());
    return encode(*a);
  };
  collectives::TreeRound round(workers().rank(), workers().size(), encode(Reply(std::move(mine))),
                               join, workers().hosts());
  if (auto done = workers().run(round); !done) return done.error();
  const auto told = decode_reply(round.result());
  if (!told) return internal_error("a worker gives what are no sizes");
  reply(*told);
  return {};
}

}  // namespace lockstep::worker
