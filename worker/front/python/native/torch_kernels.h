// A kernel in front of each operator of torch.distributed, which posts and compares the operation
// before the operator issues it (lockstep_lines.h).
#pragma once

#include <map>
#include <mutex>

#include "torch_notes.h"
#include "torch_operators.h"
#include "torch_receives.h"
#include "torch_work.h"
#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/library.h>

namespace lockstep::torch_lines {
namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
using Work = c10::intrusive_ptr<c10d::Work>;

/// A group of this process: a process group on one type of device, or a directed pair of its ranks.
struct GroupName {
  const c10d::ProcessGroup* of = nullptr;
  c10::DeviceType device = c10::DeviceType::CPU;
  int64_t sender = -1, receiver = -1, tag = 0;
  auto operator<=>(const GroupName&) const = default;
};

struct Known {
  c10::weak_intrusive_ptr<c10d::ProcessGroup> of;  // keeps its address from being reused
  int group = -1;
  bool is_watched = false;
  bool is_gloo = false;  // only waits of gloo can be ended
  c10::DeviceType device = c10::DeviceType::CPU;
};
std::mutex knowing;  // guards `known` and `receives`; a Known never moves
std::map<GroupName, Known> known;
/// The receives from any source of one group and tag. The weak pointer keeps the group's address
/// from being reused.
struct Receives {
  c10::weak_intrusive_ptr<c10d::ProcessGroup> of;
  std::shared_ptr<AnyReceives> all = std::make_shared<AnyReceives>();
};
std::map<std::pair<const c10d::ProcessGroup*, int64_t>, Receives> receives;

bool is_gloo(const ProcessGroup& group, c10::DeviceType device) {
  try {
    return group->getBackend(device)->getBackendName() == "gloo";
  } catch (const std::exception&) {
    return false;
  }
}

const Known& known_of(const GroupName& name, const ProcessGroup& of) {
  {
    const std::lock_guard lock(knowing);
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
  }
  const std::string called = of->getGroupName();
  Known made{c10::weak_intrusive_ptr<c10d::ProcessGroup>(of)};
  made.is_watched = name.sender < 0 && called == given.watched;
  made.device = name.device;
  made.is_gloo = is_gloo(of, name.device);
  const Gil gil;
  PyObject* number = PyObject_CallFunction(
      given.group, "ssLLL", called.c_str(), c10::DeviceTypeName(name.device, true).c_str(),
      static_cast<long long>(name.sender), static_cast<long long>(name.receiver),
      static_cast<long long>(name.tag));
  if (number == nullptr) raise_set();
  made.group = static_cast<int>(PyLong_AsLong(number));
  Py_DECREF(number);
  const std::lock_guard lock(knowing);
  return known.try_emplace(name, std::move(made)).first->second;
}

std::shared_ptr<AnyReceives> receives_of(const ProcessGroup& of, int64_t tag) {
  const std::lock_guard lock(knowing);
  return receives
      .try_emplace({of.get(), tag}, Receives{c10::weak_intrusive_ptr<c10d::ProcessGroup>(of)})
      .first->second.all;
}

/// Returns the group of an operation; null: the operation is not compared. For a send or a receive,
/// also sets root and needs in `read`.
const Known* known_group(const Operator& op, const Arguments& arguments, const ProcessGroup& group,
                         Read& read) {
  GroupName name{group.get()};
  if (!read.payload.empty()) name.device = read.payload[0].device().type();
  if (op.read == read_pair) {
    const bool sends = op.kind[0] == 's';
    const int64_t peer = arguments.number(sends ? "dst" : "src", -1);
    name.sender = sends ? group->getRank() : peer;
    name.receiver = sends ? peer : group->getRank();
    name.tag = arguments.number("tag", 0);
    read.root = 0;
    if (!sends && !receives_of(group, name.tag)->directed()) return nullptr;
    read.needs = LOCKSTEP_NEEDS_ROOT;
  }
  const Known& found = known_of(name, group);
  if (op.read == read_pair && op.kind[0] == 's')  // gloo completes a send when it is received
    read.needs = found.is_gloo ? LOCKSTEP_NEEDS_RECEIVER : LOCKSTEP_NEEDS_NOBODY;
  return found.group < 0 ? nullptr : &found;
}

struct Posted {
  const Known* on = nullptr;
  uint64_t number = 0;
  bool needs_others = false;
};

/// Returns the time-out of a backend; nullopt: this release of torch does not expose it (such a
/// release has no time-outs of single operations).
template <class Backend>
std::optional<std::chrono::milliseconds> timeout_of(Backend& backend) {
  if constexpr (requires { backend.getBackendOptions(); })
    return backend.getBackendOptions()->timeout;
  else
    return std::nullopt;
}

/// Extends the time-out of a gloo operation, so that the operation outlasts the compiles of peers
/// that it waits for. Returns the moment at which the program's own time-out is up; nullopt: the
/// time-out is unchanged.
std::optional<TimeUp> with_patience(const Operator& op, const Known& on,
                                    const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  if (marks.patience == 0 || std::string_view(op.kind) == "monitored_barrier") return std::nullopt;
  const Arguments arguments(handle, stack);
  const IValue* timeout = arguments.named("timeout");
  if (timeout == nullptr || !timeout->isInt()) return std::nullopt;
  std::chrono::milliseconds own(timeout->toInt());
  if (own.count() <= 0) {
    const auto group = arguments.named("process_group")->toCustomClass<c10d::ProcessGroup>();
    const auto standard = timeout_of(*group->getBackend(on.device));
    if (!standard || standard->count() <= 0) return std::nullopt;
    own = *standard;
  }
  stack[static_cast<size_t>(timeout - stack.data())] = own.count() + int64_t{marks.patience} * 1000;
  constexpr std::chrono::hours kForever{24 * 365 * 10};
  own = std::min<std::chrono::milliseconds>(own, kForever);
  return TimeUp{std::chrono::steady_clock::now() + own, own};
}

Posted post(const Operator& op, const c10::OperatorHandle& handle, const torch::jit::Stack& stack) {
  const Arguments arguments(handle, stack);
  const IValue* process_group = arguments.named("process_group");
  if (process_group == nullptr) return {};
  const auto group = process_group->toCustomClass<c10d::ProcessGroup>();
  Read read;
  op.read(arguments, group->getRank(), group->getSize(), read);
  Posted posted{known_group(op, arguments, group, read)};
  if (posted.on == nullptr) return posted;
  posted.needs_others = read.needs != LOCKSTEP_NEEDS_NOBODY;
  const char* at = place(op.kind);
  const char* reduction = reduction_name(arguments);
  if (posted.on->is_watched) notes.comes(op, reduction, read.payload, at);
  const bool shows = !read.payload.empty() && op.read != read_nothing;
  lockstep_operation operation{};
  operation.struct_size = sizeof operation;
  operation.kind = op.kind;
  operation.dtype = shows ? dtype_name(read.payload[0]) : nullptr;
  operation.reduction = reduction;
  operation.place = at;
  operation.root = static_cast<int32_t>(read.root);
  operation.needs = read.needs;
  operation.paired = op.read == read_pair ? 1 : 0;
  operation.tensors = static_cast<uint32_t>(read.elements.size());
  operation.elements = read.elements.data();
  operation.ndim = shows ? static_cast<uint32_t>(read.payload[0].dim()) : 0;
  operation.shape = shows ? read.payload[0].sizes().data() : nullptr;
  operation.to_count = static_cast<uint32_t>(read.to.size());
  operation.to = read.to.data();
  operation.from_count = static_cast<uint32_t>(read.from.size());
  operation.from = read.from.data();
  if (given.issue(given.lines, posted.on->group, &operation, &posted.number) == LOCKSTEP_OK) {
    static std::atomic<uint64_t> apart{0};
    if (const uint64_t now = given.apart(given.lines); now != apart.exchange(now))
      call(given.apart_grows, nullptr);
    return posted;
  }
  if (only_told()) return {};
  raise_last();
}

/// Issues an operation by `call`. If that fails because the group is dead, raises the group's
/// error.
template <class Call>
void issue_on(const Posted& posted, const Call& call) {
  if (posted.on == nullptr || !posted.on->is_gloo) return call();
  try {
    call();
  } catch (const std::exception&) {
    raise_reason(posted.on->group, posted.number);
    throw;
  }
}

/// Issues an operation under TORCH_DISTRIBUTED_DEBUG=DETAIL, where torch first waits for all
/// members.
void issue_checked(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack, const Posted& posted) {
  auto issued = std::make_shared<torch::jit::Stack>(*stack);
  run_beside(
      [handle, keys, issued, state = at::ThreadLocalState()] {
        const at::ThreadLocalStateGuard guard(state);
        handle.redispatchBoxed(keys, issued.get());
      },
      posted.on->group, posted.number);
  *stack = std::move(*issued);
}

/// Compares completed receives from any source. `received`: each receive with its source, in the
/// order in which the receives were issued.
void compare_received(const ProcessGroup& group, c10::DeviceType device, int64_t tag,
                      const std::vector<std::pair<int, AnyReceive>>& received) {
  for (const auto& [source, receive] : received) {
    const Known& on = known_of({group.get(), device, source, group->getRank(), tag}, group);
    if (!is_on || on.group < 0) continue;
    lockstep_operation operation{};
    operation.struct_size = sizeof operation;
    operation.kind = "receive";
    operation.dtype = receive.dtype;
    operation.place = receive.place;
    operation.needs = LOCKSTEP_NEEDS_ROOT;
    operation.paired = 1;
    operation.tensors = static_cast<uint32_t>(receive.elements.size());
    operation.elements = receive.elements.data();
    operation.ndim = static_cast<uint32_t>(receive.shape.size());
    operation.shape = receive.shape.data();
    if (given.issue(given.lines, on.group, &operation, nullptr) == LOCKSTEP_OK)
      given.issued(given.lines, on.group);
    else if (!only_told())
      raise_last();
  }
}

void receive_from_any(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const Arguments arguments(handle, *stack);
  const auto group = arguments.named("process_group")->toCustomClass<c10d::ProcessGroup>();
  const auto tensors = arguments.tensors({"tensors"});
  const int64_t tag = arguments.number("tag", 0);
  const auto all = receives_of(group, tag);
  AnyReceive receive{nullptr, place("receive"), elements_of(tensors), {}};
  c10::DeviceType device = c10::DeviceType::CPU;
  if (!tensors.empty()) {
    receive.dtype = dtype_name(tensors[0]);
    receive.shape = tensors[0].sizes().vec();
    device = tensors[0].device().type();
  }
  given.take_from_any(given.lines);
  const int64_t number = all->issue(std::move(receive));
  try {
    handle.redispatchBoxed(keys, stack);
  } catch (...) {
    all->abandon();
    throw;
  }
  if (number < 0 || stack->empty() || !stack->back().isCustomClass()) return;
  stack->back() = IValue(Work(c10::make_intrusive<AnyReceiveWork>(
      stack->back().toCustomClass<c10d::Work>(), all,
      [group, device, tag, all, number](int source) {
        compare_received(group, device, tag, all->completed(number, source));
      })));
}

template <size_t I>
void kernel(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto after =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  if (is_on && std::string_view(kOperators[I].name) == "recv_any_source_")
    return receive_from_any(handle, after, stack);
  static std::atomic<bool> has_future{true};
  Posted posted;
  if (is_on) posted = post(kOperators[I], handle, *stack);
  std::optional<TimeUp> up;
  if (posted.on != nullptr && posted.on->is_gloo && posted.needs_others)
    up = with_patience(kOperators[I], *posted.on, handle, *stack);
  if (posted.on != nullptr && posted.on->is_gloo && c10d::debug_level() == c10d::DebugLevel::Detail)
    issue_checked(handle, after, stack, posted);
  else
    issue_on(posted, [&] { handle.redispatchBoxed(after, stack); });
  if (posted.on == nullptr) return;
  given.issued(given.lines, posted.on->group);
  if (!posted.on->is_gloo || stack->empty() || !stack->back().isCustomClass()) return;
  Work inner = stack->back().toCustomClass<c10d::Work>();
  stack->back() = IValue(Work(c10::make_intrusive<WatchedWork>(
      std::move(inner), posted.on->group, posted.number, posted.needs_others, has_future, up)));
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

/// Keeps the kernels registered during its lifetime. Construct it under the GIL.
class Kernels {
 public:
  Kernels()
      : library_(torch::Library::IMPL, "c10d", c10::DispatchKey::BackendSelect, __FILE__,
                 __LINE__) {
    {
      const std::lock_guard lock(knowing);
      known.clear();
      receives.clear();
    }
    implement(library_, std::make_index_sequence<std::size(kOperators)>());
  }

 private:
  torch::Library library_;
};

}  // namespace
}  // namespace lockstep::torch_lines
