// The part of lockstep.torch that is built for one release of torch: a kernel in front of each
// operator of torch.distributed, which posts and compares the operation before it is issued
// (lockstep_lines.h), and the Work objects of what runs on the host, whose waits end where the
// group is dead. Loaded by lockstep/torch/lines.py. scripts/torch-lines builds it against the
// headers of a release.
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <ATen/core/dispatch/Dispatcher.h>
#include <Python.h>
#include <lockstep_lines.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/library.h>

namespace {

using c10::IValue;
using Numbers = std::vector<int64_t>;
using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
using Work = c10::intrusive_ptr<c10d::Work>;

/// What lines.py gives, once: functions of liblockstep, and callables.
struct Given {
  lockstep_lines* lines;
  decltype(&lockstep_lines_issue) issue;
  decltype(&lockstep_lines_issued) issued;
  decltype(&lockstep_wait_begin) wait_begin;
  decltype(&lockstep_wait_look) wait_look;
  decltype(&lockstep_wait_end) wait_end;
  PyObject*
      group;  // (name, device, sender, receiver, tag) -> number of the group; -1: it is not watched
  PyObject* error;    // () -> the exception of the last error of this thread
  PyObject* is_user;  // (file name of a function) -> whether it is the user's
  PyObject* before;   // (name of the process group, "all_reduce sum f32[4]", place); what it raises
                      // is not issued
};
Given given{};
/// False in a copy of the process (a data loader's), and after remove().
std::atomic<bool> is_on{false};

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Raises the exception that Python has set.
[[noreturn]] void raise_set() {
  python_error raised;
  raised.persist();
  throw raised;
}

/// Raises what this thread's last call of liblockstep has failed with.
[[noreturn]] void raise_last() {
  const Gil gil;
  PyObject* error = PyObject_CallNoArgs(given.error);
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  raise_set();
}

/// "train.py:41": the innermost line of the user's; by code object whether a function is one.
std::string place() {
  static std::unordered_map<PyObject*, std::pair<bool, std::string>> known;  // under the GIL
  const Gil gil;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  std::string out;
  while (frame != nullptr) {
    auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    auto found = known.find(code);
    if (found == known.end()) {
      PyObject* file = PyObject_GetAttrString(code, "co_filename");
      PyObject* user = file == nullptr ? nullptr : PyObject_CallOneArg(given.is_user, file);
      const char* path = file == nullptr ? nullptr : PyUnicode_AsUTF8(file);
      std::string name(path == nullptr ? "" : path);
      found = known
                  .emplace(code, std::pair(user != nullptr && PyObject_IsTrue(user) == 1,
                                           name.substr(name.rfind('/') + 1)))
                  .first;
      Py_INCREF(code);  // so that no other takes its address
      Py_XDECREF(user);
      Py_XDECREF(file);
      PyErr_Clear();
    }
    Py_DECREF(code);
    if (found->second.first) {
      out = found->second.second + ":" + std::to_string(PyFrame_GetLineNumber(frame));
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return out;
}

/// A Work of the host's, whose wait ends when its group is dead.
class WatchedWork final : public c10d::Work {
 public:
  /// `has_future`: of the operator's works; false once one has had none.
  WatchedWork(::Work inner, std::vector<at::Tensor> tensors, int group, uint64_t number,
              std::atomic<bool>& has_future)
      : inner_(std::move(inner)),
        tensors_(std::move(tensors)),
        group_(group),
        number_(number),
        has_future_(has_future) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    if (!is_on || inner_->isCompleted()) return inner_->wait(timeout);
    // What others complete must outlive this wait, however it ends.
    struct Shared {
      std::mutex mutex;
      std::condition_variable changed;
      bool is_done = false, result = true;
      std::exception_ptr error;
    };
    auto shared = std::make_shared<Shared>();
    const auto done = [shared](bool result, std::exception_ptr error) {
      const std::lock_guard lock(shared->mutex);
      shared->is_done = true;
      shared->result = result;
      shared->error = std::move(error);
      shared->changed.notify_all();
    };
    const auto future = future_of();
    if (future) {
      future->addCallback([done](c10::ivalue::Future&) { done(true, nullptr); });
    } else {  // a send, a receive, some reductions: it completes in its own wait only
      std::thread([done, inner = inner_, tensors = tensors_, timeout] {
        try {
          done(inner->wait(timeout), nullptr);
        } catch (...) {
          done(false, std::current_exception());
        }
      }).detach();
    }
    lockstep_wait* looked = nullptr;
    if (given.wait_begin(given.lines, group_, number_, &looked) != LOCKSTEP_OK) raise_last();
    const std::unique_ptr<lockstep_wait, decltype(given.wait_end)> ended(looked, given.wait_end);
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(shared->mutex);
    while (!shared->changed.wait_for(lock, std::chrono::milliseconds(20),
                                     [&] { return shared->is_done; })) {
      if (given.wait_look(looked) != LOCKSTEP_OK) {
        lock.unlock();
        keep();
        raise_last();
      }
      if (future && timeout != kNoTimeout && std::chrono::steady_clock::now() - start > timeout)
        break;
    }
    if (future) {
      lock.unlock();
      return inner_->wait(timeout);
    }
    if (shared->error) std::rethrow_exception(shared->error);
    return shared->result;
  }

 private:
  /// null: it has none.
  c10::intrusive_ptr<c10::ivalue::Future> future_of() {
    if (!has_future_) return {};
    try {
      return inner_->getFuture();
    } catch (const std::exception&) {
      has_future_ = false;
      return {};
    }
  }

  /// The operation stays where it is: what it reads and writes must stay too.
  void keep() {
    static auto* kept = new std::vector<std::pair<::Work, std::vector<at::Tensor>>>;
    static std::mutex keeping;
    const std::lock_guard lock(keeping);
    kept->emplace_back(inner_, tensors_);
  }

  ::Work inner_;
  std::vector<at::Tensor> tensors_;
  int group_;
  uint64_t number_;
  std::atomic<bool>& has_future_;
};

/// An operator's arguments, by position of its schema.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& handle, const torch::jit::Stack& stack)
      : schema_(handle.schema()),
        first_(stack.size() - schema_.arguments().size()),
        stack_(stack) {}

  [[nodiscard]] const IValue* named(const char* name) const {
    for (size_t i = 0; i < schema_.arguments().size(); ++i)
      if (schema_.arguments()[i].name() == name) return &stack_[first_ + i];
    return nullptr;
  }
  [[nodiscard]] int64_t number(const char* name, int64_t otherwise) const {
    const IValue* found = named(name);
    return found == nullptr || !found->isInt() ? otherwise : found->toInt();
  }
  /// All tensors of an argument, in order.
  [[nodiscard]] std::vector<at::Tensor> tensors(std::initializer_list<const char*> names) const {
    std::vector<at::Tensor> out;
    for (const char* name : names)
      if (const IValue* found = named(name)) collect(*found, out);
    return out;
  }

 private:
  static void collect(const IValue& value, std::vector<at::Tensor>& out) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) out.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) out.push_back(tensor);
    } else if (value.isList()) {
      for (const IValue& item : value.toListRef()) collect(item, out);
    }
  }

  const c10::FunctionSchema& schema_;
  size_t first_;
  const torch::jit::Stack& stack_;
};

Numbers elements_of(const std::vector<at::Tensor>& tensors) {
  Numbers out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.numel());
  return out;
}

const char* dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kShort:
      return "i16";
    case at::kChar:
      return "i8";
    case at::kByte:
      return "u8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(tensor.scalar_type());
  }
}

const char* reduction_name(const Arguments& arguments) {
  const IValue* given_op = arguments.named("reduce_op");
  if (given_op == nullptr) return nullptr;
  switch (static_cast<c10d::ReduceOp::RedOpType>(*given_op->toCustomClass<c10d::ReduceOp>())) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    case c10d::ReduceOp::PREMUL_SUM:
      return "premul_sum";
    default:
      return "other";
  }
}

/// What an operator says of its operation.
struct Read {
  std::vector<at::Tensor> payload;  // that members have alike, or that this rank sends
  Numbers elements, to, from;
  int64_t root = -1;
  lockstep_needs needs = LOCKSTEP_NEEDS_ALL;
};
using Reader = void (*)(const Arguments&, int rank, int size, Read&);

void read_alike(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensors", "input_tensor", "inputs"});
  read.elements = elements_of(read.payload);
}

void read_rooted(const Arguments& a, int rank, int, Read& read) {
  read_alike(a, 0, 0, read);
  read.root = a.number("root_rank", -1);
  const bool is_broadcast = a.named("reduce_op") == nullptr;
  if (is_broadcast)
    read.needs = rank == read.root ? LOCKSTEP_NEEDS_NOBODY : LOCKSTEP_NEEDS_ROOT;
  else if (rank != read.root)
    read.needs = LOCKSTEP_NEEDS_NOBODY;
}

void read_nothing(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensor"});
}

/// Tensors of all members are the same list everywhere.
void read_lists(const Arguments& a, int, int, Read& read) {
  const bool scatters = a.named("reduce_op") != nullptr;
  read.payload = a.tensors({"input_tensors", "input_list"});
  read.elements =
      elements_of(scatters ? read.payload : a.tensors({"output_tensors", "output_lists"}));
}

void read_gather(const Arguments& a, int rank, int, Read& read) {
  read.root = a.number("root_rank", -1);
  read.payload = a.tensors({"input_tensors", "input_tensor"});
  const Numbers mine = elements_of(read.payload);
  if (a.named("input_tensor") != nullptr) read.elements = mine;  // into one tensor: all alike
  if (rank == read.root && a.named("output_tensors") != nullptr) {
    read.from = elements_of(a.tensors({"output_tensors"}));
  } else if (rank != read.root) {
    read.to = {mine.empty() ? 0 : mine[0]};
    read.needs = LOCKSTEP_NEEDS_NOBODY;
  }
}

void read_scatter(const Arguments& a, int rank, int, Read& read) {
  read.root = a.number("root_rank", -1);
  const auto out = a.tensors({"output_tensors"});
  read.payload = out;
  if (rank == read.root) {
    read.to = elements_of(a.tensors({"input_tensors"}));
    read.needs = LOCKSTEP_NEEDS_NOBODY;
  } else {
    read.from = {out.empty() ? 0 : out[0].numel()};
    read.needs = LOCKSTEP_NEEDS_ROOT;
  }
}

void read_exchange(const Arguments& a, int, int size, Read& read) {
  read.needs = LOCKSTEP_NEEDS_SENDERS;
  if (a.named("input") == nullptr) {  // a tensor for each peer
    read.payload = a.tensors({"input_tensors"});
    read.to = elements_of(read.payload);
    read.from = elements_of(a.tensors({"output_tensors"}));
    return;
  }
  read.payload = a.tensors({"input"});
  const auto splits = [&](const char* which, const char* tensor) {
    const auto of = a.tensors({tensor});
    const int64_t elements = of.empty() ? 0 : of[0].numel(),
                  rows = of.empty() || of[0].dim() == 0 ? 1 : of[0].size(0);
    const int64_t row = rows == 0 ? 0 : elements / rows;
    Numbers out = a.named(which)->toIntVector();
    if (out.empty()) out.assign(static_cast<size_t>(size), size == 0 ? 0 : rows / size);
    for (int64_t& rows_of_peer : out) rows_of_peer *= row;
    return out;
  };
  read.to = splits("input_split_sizes", "input");
  read.from = splits("output_split_sizes", "output");
}

void read_pair(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensors"});
  read.elements = elements_of(read.payload);
}

struct Operator {
  const char* name;
  const char* kind;
  Reader read;
  bool sizes = true;  // all members have the same ones
};
constexpr Operator kOperators[] = {
    {"allreduce_", "all_reduce", read_alike},
    {"allreduce_coalesced_", "all_reduce", read_alike},
    {"broadcast_", "broadcast", read_rooted},
    {"reduce_", "reduce", read_rooted},
    {"barrier", "barrier", read_nothing},
    {"monitored_barrier_", "monitored_barrier", read_nothing},
    {"allgather_", "all_gather", read_lists, false},
    {"allgather_coalesced_", "all_gather", read_lists, false},
    {"_allgather_base_", "all_gather_into_tensor", read_alike},
    {"allgather_into_tensor_coalesced_", "all_gather_into_tensor", read_alike},
    {"gather_", "gather", read_gather, false},
    {"gather_into_tensor_", "gather_into_tensor", read_gather},
    {"scatter_", "scatter", read_scatter},
    {"reduce_scatter_", "reduce_scatter", read_lists},
    {"_reduce_scatter_base_", "reduce_scatter_tensor", read_alike},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter_tensor", read_alike},
    {"alltoall_", "all_to_all", read_exchange, false},
    {"alltoall_base_", "all_to_all_single", read_exchange, false},
    {"send", "send", read_pair},
    {"recv_", "receive", read_pair},
};

/// A group of this process: a process group on one kind of device, or a pair.
struct GroupName {
  std::string name;
  std::string device;
  int64_t sender = -1, receiver = -1, tag = 0;
  auto operator<=>(const GroupName&) const = default;
};

std::mutex knowing;  // guards what follows
std::map<GroupName, int> known;

int group_of(const GroupName& name) {
  {
    const std::lock_guard lock(knowing);
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
  }
  const Gil gil;
  PyObject* number = PyObject_CallFunction(given.group, "ssLLL", name.name.c_str(),
                                           name.device.c_str(), static_cast<long long>(name.sender),
                                           static_cast<long long>(name.receiver),
                                           static_cast<long long>(name.tag));
  if (number == nullptr) raise_set();
  const int group = static_cast<int>(PyLong_AsLong(number));
  Py_DECREF(number);
  const std::lock_guard lock(knowing);
  known[name] = group;
  return group;
}

constexpr size_t kShownTensors = 4;

/// "all_reduce sum f32[4], f32[2]": as collectives.py says it.
std::string text_of(const Operator& op, const char* reduction,
                    const std::vector<at::Tensor>& payload) {
  std::string out = op.kind;
  if (op.read == read_nothing) return out;
  if (reduction != nullptr) out += std::string(" ") + reduction;
  for (size_t i = 0; i < payload.size() && i < kShownTensors; ++i) {
    out += std::string(i == 0 ? " " : ", ") + dtype_name(payload[i]);
    if (!op.sizes) continue;
    out += "[";
    for (int64_t dim = 0; dim < payload[i].dim(); ++dim)
      out += (dim == 0 ? "" : ", ") + std::to_string(payload[i].size(dim));
    out += "]";
  }
  if (payload.size() > kShownTensors)
    out += ", and " + std::to_string(payload.size() - kShownTensors) + " more";
  return out;
}

void tell(const std::string& group, const std::string& what, const std::string& at) {
  const Gil gil;
  PyObject* done =
      PyObject_CallFunction(given.before, "sss", group.c_str(), what.c_str(), at.c_str());
  if (done == nullptr) raise_set();
  Py_DECREF(done);
}

struct Posted {
  int group = -1;
  uint64_t number = 0;
  bool is_on_host = false, is_pair = false;
  std::vector<at::Tensor> tensors;
};

Posted post(const Operator& op, const c10::OperatorHandle& handle, const torch::jit::Stack& stack) {
  const Arguments arguments(handle, stack);
  const IValue* process_group = arguments.named("process_group");
  if (process_group == nullptr) return {};
  const auto group = process_group->toCustomClass<c10d::ProcessGroup>();
  Read read;
  op.read(arguments, group->getRank(), group->getSize(), read);
  Posted posted;
  posted.is_pair = op.read == read_pair;
  GroupName name{group->getGroupName(), "cpu"};
  if (!read.payload.empty())
    name.device = c10::DeviceTypeName(read.payload[0].device().type(), true);
  if (posted.is_pair) {
    const bool sends = op.kind[0] == 's';
    const int64_t peer = arguments.number(sends ? "dst" : "src", -1);
    name.sender = sends ? group->getRank() : peer;
    name.receiver = sends ? peer : group->getRank();
    name.tag = arguments.number("tag", 0);
    read.root = 0;
    read.needs = sends ? LOCKSTEP_NEEDS_NOBODY : LOCKSTEP_NEEDS_ROOT;
  }
  posted.group = group_of(name);
  if (posted.group < 0) return posted;
  posted.is_on_host = name.device == "cpu";
  posted.tensors = arguments.tensors({"tensors", "tensor", "input", "output", "inputs", "outputs",
                                      "input_tensor", "output_tensor", "input_tensors",
                                      "output_tensors", "input_list", "output_lists"});
  const std::string at = place();
  const char* reduction = reduction_name(arguments);
  if (!posted.is_pair) tell(name.name, text_of(op, reduction, read.payload), at);
  const bool shows = !read.payload.empty() && op.read != read_nothing;
  lockstep_operation operation{};
  operation.struct_size = sizeof operation;
  operation.kind = op.kind;
  operation.dtype = shows ? dtype_name(read.payload[0]) : nullptr;
  operation.reduction = reduction;
  operation.place = at.c_str();
  operation.root = static_cast<int32_t>(read.root);
  operation.needs = read.needs;
  operation.paired = posted.is_pair ? 1 : 0;
  operation.tensors = static_cast<uint32_t>(read.elements.size());
  operation.elements = read.elements.data();
  operation.ndim = shows ? static_cast<uint32_t>(read.payload[0].dim()) : 0;
  operation.shape = shows ? read.payload[0].sizes().data() : nullptr;
  operation.to_count = static_cast<uint32_t>(read.to.size());
  operation.to = read.to.data();
  operation.from_count = static_cast<uint32_t>(read.from.size());
  operation.from = read.from.data();
  if (given.issue(given.lines, posted.group, &operation, &posted.number) != LOCKSTEP_OK)
    raise_last();
  return posted;
}

template <size_t I>
void kernel(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto after =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  static std::atomic<bool> has_future{true};
  Posted posted;
  if (is_on) posted = post(kOperators[I], handle, *stack);
  handle.redispatchBoxed(after, stack);
  if (posted.group < 0) return;
  given.issued(given.lines, posted.group);
  if (!posted.is_on_host || stack->empty() || !stack->back().isCustomClass()) return;
  Work inner = stack->back().toCustomClass<c10d::Work>();
  stack->back() = IValue(Work(c10::make_intrusive<WatchedWork>(
      std::move(inner), std::move(posted.tensors), posted.group, posted.number, has_future)));
}

template <size_t... I>
void implement(torch::Library& library, std::index_sequence<I...>) {
  const auto has = [](const char* name) {
    return c10::Dispatcher::singleton().findSchema({std::string("c10d::") + name, ""}).has_value();
  };
  ((has(kOperators[I].name)
        ? void(library.impl(kOperators[I].name,
                            torch::CppFunction::makeFromBoxedFunction<&kernel<I>>()))
        : void()),
   ...);
}

torch::Library* library = nullptr;

}  // namespace

extern "C" {

/// From now on operations are posted. Under the GIL.
__attribute__((visibility("default"))) void lockstep_torch_lines_install(const Given* from) {
  given = *from;
  Py_INCREF(given.group);
  Py_INCREF(given.error);
  Py_INCREF(given.is_user);
  Py_INCREF(given.before);
  {
    const std::lock_guard lock(knowing);
    known.clear();
  }
  library = new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::BackendSelect,
                               __FILE__, __LINE__);
  implement(*library, std::make_index_sequence<std::size(kOperators)>());
  is_on = true;
}

__attribute__((visibility("default"))) void lockstep_torch_lines_remove() {
  is_on = false;
  delete library;
  library = nullptr;
}

/// In a copy of the process: it takes no part.
__attribute__((visibility("default"))) void lockstep_torch_lines_forget() { is_on = false; }
}
