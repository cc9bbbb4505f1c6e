#include "op_samples.h"

#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::samples {
namespace {

/// The dims that `which` says, each by the next tensor from `next` on.
std::vector<Index> indices(In x, Arguments which, std::size_t next) {
  std::vector<Index> at;
  for (const bool here : which) at.push_back(here ? Index(x[next++]) : Index());
  return at;
}

ScatterReduce reduce_of(const std::string& name) {
  static const std::map<std::string, ScatterReduce> all{{"sum", ScatterReduce::Sum},
                                                        {"prod", ScatterReduce::Prod},
                                                        {"mean", ScatterReduce::Mean},
                                                        {"amax", ScatterReduce::Amax},
                                                        {"amin", ScatterReduce::Amin}};
  return all.at(name);
}

Dims dims_of(Arguments list) { return list.get<Dims>(); }
Sizes sizes_of(Arguments list) {
  const Dims numbers = dims_of(list);
  return {numbers.begin(), numbers.end()};
}

/// The tensor at `k`, or the number of the arguments.
TensorOperand value_at(In x, std::size_t k, Arguments n, std::size_t number) {
  if (x.size() > k) return x[k];
  if (n[number].is_number_float()) return n[number].get<double>();
  return n[number].is_boolean() ? std::int64_t{n[number].get<bool>()}
                                : n[number].get<std::int64_t>();
}

/// Of `length` elements from `start` on every `step`-th: windows of one element.
Tensor stepped(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length,
               std::int64_t step) {
  const Tensor part = slice(x, dim, start, length);
  if (step == 1 || length == 0) return part;
  return squeeze(unfold(part, {{.dim = dim, .size = 1, .stride = step}}), -1);
}

/// x[..] by steps, one per dim or new dim: views first, then tensors.
Tensor got(In x, Arguments steps) {
  Tensor y = x[0];
  std::vector<Index> at;
  bool tensors = false;
  std::size_t next = 1;
  std::int64_t dim = 0;
  for (Arguments step : steps) {
    const std::string kind = step.at(0);
    if (kind == "number") {
      y = select(y, dim, step.at(1).get<std::int64_t>());
      continue;
    }
    if (kind == "new") y = unsqueeze(y, dim);
    if (kind == "slice") y = stepped(y, dim, step.at(1), step.at(2), step.at(3));
    const bool is_tensor = kind == "tensor";
    tensors = tensors || is_tensor;
    dim += is_tensor && x[next].dtype() == DType::Bool ? x[next].ndim() : 1;
    at.push_back(is_tensor ? Index(x[next++]) : Index());
  }
  return tensors ? index(y, at) : y;
}

}  // namespace

// clang-format off
#define TAKES(name, ...) {#name, [](In x, [[maybe_unused]] Arguments n) { return std::vector<Tensor>{__VA_ARGS__}; }}
Functions index_ops() {
  return {
    TAKES(gather, gather(x[0], n.at(0), x[1])),
    TAKES(take_along_dim, take_along_dim(x[0], x[1], n.at(0))),
    TAKES(scatter, scatter(x[0], n.at(0), x[1], value_at(x, 2, n, 1))),
    TAKES(scatter_add, scatter_add(x[0], n.at(0), x[1], x[2])),
    TAKES(scatter_reduce, scatter_reduce(x[0], n.at(0), x[1], x[2], reduce_of(n.at(1)), n.at(2))),
    TAKES(getitem, got(x, n.at(0))),
    TAKES(index_put, index_put(x[0], indices(x, n.at(0), 2), x[1], n.at(1))),
    TAKES(index_select, index_select(x[0], n.at(0), x[1])),
    TAKES(index_copy, index_copy(x[0], n.at(0), x[1], x[2])),
    TAKES(index_fill, index_fill(x[0], n.at(0), x[1], value_at(x, 2, n, 1))),
    TAKES(index_add, index_add(x[0], n.at(0), x[1], n.at(1) == 1 ? x[2] : x[2] * value_at(x, 3, n, 1))),
    TAKES(take, take(x[0], x[1])),
    TAKES(put, put(x[0], x[1], x[2], n.at(0))),
    TAKES(masked_fill, masked_fill(x[0], x[1], value_at(x, 2, n, 0))),
    TAKES(masked_scatter, masked_scatter(x[0], x[1], x[2])),
    TAKES(tril, tril(x[0], n.at(0))), TAKES(triu, triu(x[0], n.at(0))), TAKES(diag, diag(x[0], n.at(0))),
    TAKES(diagonal, diagonal(x[0], n.at(0), n.at(1), n.at(2))),
    TAKES(diag_embed, diag_embed(x[0], n.at(0), n.at(1), n.at(2))),
    TAKES(roll, roll(x[0], sizes_of(n.at(0)), dims_of(n.at(1)))),
    TAKES(stack, stack(x, n.at(0))),
    {"chunk", [](In x, Arguments n) { return chunk(x[0], n.at(0), n.at(1)); }},
    {"meshgrid", [](In x, Arguments n) { return meshgrid(x, n.at(0) ? Indexing::Xy : Indexing::Ij); }},
    TAKES(repeat, repeat(x[0], sizes_of(n.at(0)))), TAKES(tile, tile(x[0], sizes_of(n.at(0)))),
    TAKES(flatten, flatten(x[0], n.at(0), n.at(1))),
    TAKES(unflatten, unflatten(x[0], n.at(0), sizes_of(n.at(1)))),
    TAKES(movedim, movedim(x[0], dims_of(n.at(0)), dims_of(n.at(1)))),
    TAKES(select, select(x[0], n.at(0), n.at(1).get<std::int64_t>())),
    TAKES(narrow, slice(x[0], n.at(0), n.at(1).is_null() ? item(x[1]) : SymInt(n.at(1).get<std::int64_t>()),
                        n.at(2).get<std::int64_t>())),
    TAKES(stepped, stepped(x[0], n.at(0), n.at(1), n.at(2), n.at(3))),
    {"unbind", [](In x, Arguments n) { return unbind(x[0], n.at(0)); }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
