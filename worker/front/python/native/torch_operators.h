// The operators of torch.distributed for torch_lines.cpp, and how the arguments of each are read.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <lockstep_lines.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep::torch_lines {

using c10::IValue;
using Numbers = std::vector<int64_t>;

/// An operator's arguments, by their position in its schema.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& handle, const torch::jit::Stack& stack)
      : schema_(handle.schema()),
        first_(stack.size() - schema_.arguments().size()),
        stack_(stack) {}

  [[nodiscard]] const IValue* named(std::string_view name) const {
    const auto& arguments = schema_.arguments();
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name() == name) return &stack_[first_ + i];
    return nullptr;
  }
  [[nodiscard]] int64_t number(std::string_view name, int64_t otherwise) const {
    const IValue* found = named(name);
    return found == nullptr || !found->isInt() ? otherwise : found->toInt();
  }
  /// Returns all tensors of the arguments `names`, in order; a name that is missing is skipped.
  [[nodiscard]] std::vector<at::Tensor> tensors(
      std::initializer_list<std::string_view> names) const {
    std::vector<at::Tensor> out;
    for (const std::string_view name : names)
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

inline Numbers elements_of(const std::vector<at::Tensor>& tensors) {
  Numbers out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.numel());
  return out;
}

inline const char* dtype_name(const at::Tensor& tensor) {
  static const std::unordered_map<at::ScalarType, const char*> names{
      {at::kFloat, "f32"}, {at::kDouble, "f64"}, {at::kHalf, "f16"},  {at::kBFloat16, "bf16"},
      {at::kLong, "i64"},  {at::kInt, "i32"},    {at::kShort, "i16"}, {at::kChar, "i8"},
      {at::kByte, "u8"},   {at::kBool, "bool"}};
  const auto found = names.find(tensor.scalar_type());
  return found == names.end() ? c10::toString(tensor.scalar_type()) : found->second;
}

inline const char* reduction_name(const Arguments& arguments) {
  using Op = c10d::ReduceOp;
  static const std::unordered_map<Op::RedOpType, const char*> names{
      {Op::SUM, "sum"}, {Op::AVG, "avg"},   {Op::PRODUCT, "product"},
      {Op::MIN, "min"}, {Op::MAX, "max"},   {Op::BAND, "band"},
      {Op::BOR, "bor"}, {Op::BXOR, "bxor"}, {Op::PREMUL_SUM, "premul_sum"}};
  const IValue* given_op = arguments.named("reduce_op");
  if (given_op == nullptr) return nullptr;
  const auto found = names.find(static_cast<Op::RedOpType>(*given_op->toCustomClass<Op>()));
  return found == names.end() ? "other" : found->second;
}

/// An operation as read from an operator's arguments.
struct Read {
  std::vector<at::Tensor>
      payload;  // tensors to show in texts: those equal in size on all members, or those sent
  Numbers elements, to, from;
  int64_t root = -1;
  lockstep_needs needs = LOCKSTEP_NEEDS_ALL;
};
using Reader = void (*)(const Arguments&, int rank, int size, Read&);

inline void read_alike(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensors", "input_tensor", "inputs"});
  read.elements = elements_of(read.payload);
}

inline void read_rooted(const Arguments& a, int rank, int, Read& read) {
  read_alike(a, 0, 0, read);
  read.root = a.number("root_rank", -1);
  const bool is_broadcast = a.named("reduce_op") == nullptr;
  if (is_broadcast)
    read.needs = rank == read.root ? LOCKSTEP_NEEDS_NOBODY : LOCKSTEP_NEEDS_ROOT;
  else if (rank != read.root)
    read.needs = LOCKSTEP_NEEDS_NOBODY;
}

inline void read_nothing(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensor"});
}

/// For operators with a list of one tensor per member, whose sizes are equal on all members.
inline void read_lists(const Arguments& a, int, int, Read& read) {
  const bool scatters = a.named("reduce_op") != nullptr;
  read.payload = a.tensors({"input_tensors", "input_list"});
  read.elements =
      elements_of(scatters ? read.payload : a.tensors({"output_tensors", "output_lists"}));
}

inline void read_gather(const Arguments& a, int rank, int, Read& read) {
  read.root = a.number("root_rank", -1);
  read.payload = a.tensors({"input_tensors", "input_tensor"});
  const Numbers mine = elements_of(read.payload);
  if (a.named("input_tensor") != nullptr) read.elements = mine;  // gathers equal sizes
  if (rank == read.root && a.named("output_tensors") != nullptr) {
    read.from = elements_of(a.tensors({"output_tensors"}));
  } else if (rank != read.root) {
    read.to = {mine.empty() ? 0 : mine[0]};
    read.needs = LOCKSTEP_NEEDS_NOBODY;
  }
}

inline void read_scatter(const Arguments& a, int rank, int, Read& read) {
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

inline void read_exchange(const Arguments& a, int, int size, Read& read) {
  read.needs = LOCKSTEP_NEEDS_SENDERS;
  if (a.named("input") == nullptr) {  // a tensor for each peer
    read.payload = a.tensors({"input_tensors"});
    read.to = elements_of(read.payload);
    read.from = elements_of(a.tensors({"output_tensors"}));
    return;
  }
  read.payload = a.tensors({"input"});
  const auto splits = [&](std::string_view which, std::string_view tensor) {
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

inline void read_pair(const Arguments& a, int, int, Read& read) {
  read.payload = a.tensors({"tensors"});
  read.elements = elements_of(read.payload);
}

struct Operator {
  const char* name;
  const char* kind;
  Reader read;
  bool sizes = true;  // text_of() shows the payload's sizes: they are equal on all members
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
    {"recv_any_source_", "receive from any", read_pair},
};

constexpr size_t kShownTensors = 4;

/// Returns "all_reduce sum f32[4], f32[2]", in the form that collectives.py uses, too.
inline std::string text_of(const Operator& op, const char* reduction,
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

}  // namespace lockstep::torch_lines
