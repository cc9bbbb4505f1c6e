#include "op_case_lists.h"

#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::test {
namespace {

using IndexFill = CaseInput::Fill;
using Given = const std::vector<Tensor>&;

/// x of these dims and an index whose values are 0, 1, ... shuffled.
std::vector<CaseInput> indexed(std::vector<CaseDim> x, std::vector<CaseDim> index) {
  return {{IndexFill::Signed, std::move(x)}, {IndexFill::Order, std::move(index)}};
}
std::vector<CaseInput> indexed(std::vector<CaseDim> x, std::vector<CaseDim> index,
                               std::vector<CaseDim> more) {
  return {{IndexFill::Signed, std::move(x)},
          {IndexFill::Order, std::move(index)},
          {IndexFill::Signed, std::move(more)}};
}

void add_scatters(std::vector<OpCase>& cases) {
  cases.push_back({"scatter", indexed({kN, fixed(3)}, {kN, kM}, {kN, kM}), [](Trace&, Given x) {
                     return exp(scatter(x[0] * x[0], 1, x[1] % 3, x[2] * 2.0)) +
                            scatter(x[0], -1, x[1] % 2, 0.5);
                   }});
  cases.push_back({"scatter_part", indexed({fixed(4), kN, fixed(2)}, {kM}, {kM, kN, fixed(3)}),
                   [](Trace&, Given x) {
                     const SymInt rows = x[1].size(0), half = x[0].size(1) / 2;
                     const Tensor at = reshape(x[1] % 4, {rows, 1, 1});
                     return scatter(x[0], 0, expand(at, {rows, half, 1}), exp(x[2]));
                   }});
  cases.push_back({"scatter_add", indexed({fixed(3), kM}, {kN, kM}, {kN, kM}),
                   [](Trace&, Given x) { return exp(scatter_add(x[0], 0, x[1] % 2, x[2])); }});
  for (const auto& [name, reduce] :
       std::vector<std::pair<std::string, ScatterReduce>>{{"sum", ScatterReduce::Sum},
                                                          {"prod", ScatterReduce::Prod},
                                                          {"mean", ScatterReduce::Mean},
                                                          {"amax", ScatterReduce::Amax},
                                                          {"amin", ScatterReduce::Amin}})
    for (const bool include_self : {true, false})
      cases.push_back({"scatter_" + name + (include_self ? "" : "_others"),
                       indexed({kN, fixed(3)}, {kN, kM}, {kN, kM}),
                       [reduce = reduce, include_self](Trace&, Given x) {
                         return scatter_reduce(x[0], 1, x[1] % 2, x[2], reduce, include_self) * 2.0;
                       }});
}

void add_tensors_of_indices(std::vector<OpCase>& cases) {
  cases.push_back(
      {"index", indexed({fixed(3), kN, fixed(4)}, {kM}), [](Trace&, Given x) {
         const Tensor at = x[1] % 3, column = unsqueeze(x[1] % 4, 1);
         return exp(x[0])[at] * sum(index(x[0], {at, {}, column - 4})) + sum(x[0][{at, {}, at}]);
       }});
  cases.push_back(
      {"index_middle", indexed({kN, fixed(3), fixed(4), kM}, {kM}), [](Trace&, Given x) {
         return index(exp(x[0]), {{}, x[1] % 3, 3 - x[1] % 4}) * 2.0;
       }});
  cases.push_back(
      {"index_put", indexed({fixed(3), kN, fixed(4)}, {kM}, {kM, kN}), [](Trace&, Given x) {
         const Tensor at = x[1] % 3, other = x[1] % 2 - 2;
         const Tensor set = index_put(x[0] * x[0], {at, {}, other}, exp(x[2]));
         return index_put(set, {at}, 0.25) + index_put(x[0], {at, {}, other}, x[2], true);
       }});
  cases.push_back(
      {"index_put_middle", indexed({kN, fixed(3), fixed(2)}, {kM}, {kM}), [](Trace&, Given x) {
         return exp(index_put(x[0], {{}, x[1] % 3, x[1] % 2}, x[2], true));
       }});
  cases.push_back({"put", indexed({fixed(2), fixed(3)}, {kN, kM}, {kM, kN}), [](Trace&, Given x) {
                     const Tensor flat = reshape(x[2], x[1].sizes());
                     return exp(put(x[0], x[1] % 5, flat, true)) +
                            put(x[0], x[1] % 5 - 6, flat * 2.0);
                   }});
  cases.push_back({"index_along", indexed({kN, fixed(4)}, {kM}, {kN, kM}), [](Trace&, Given x) {
                     const Tensor at = x[1] % 4;
                     const Tensor filled =
                         index_fill(index_copy(x[0], 1, at, x[2]), 1, at / 2 - 4, 0.5);
                     return exp(index_add(filled, -1, at, x[2])) * sum(index_select(x[0], 1, at));
                   }});
  cases.push_back(
      {"masks",
       {{IndexFill::Signed, {kN, kM}}, {IndexFill::Signed, {kN, kM}}, {IndexFill::Signed, {kM}}},
       [](Trace&, Given x) {
         const Tensor mask = x[0] > 0.0, row = x[2] > 0.0;
         return masked_fill(exp(x[0]), row, 0.5) + masked_scatter(x[0], mask, exp(x[1])) * 3.0 +
                masked_put(x[1], mask, 2.0);
       }});
  cases.push_back({"masked_put",
                   {{IndexFill::Signed, {kN, kM}}, {IndexFill::Signed, {kN}}},
                   [](Trace&, Given x) {
                     const Tensor mask = x[1] > 0.0;
                     const Tensor once = masked_put(x[0], mask, exp(x[0][mask]));
                     return masked_put(once, ~mask, sum(x[0], {0})) * x[0];
                   }});
}

}  // namespace

void add_gathers(std::vector<OpCase>& cases) {
  cases.push_back({"gather", indexed({kN, fixed(4)}, {kN, kM}),
                   [](Trace&, Given x) { return gather(exp(x[0]), -1, x[1] % 4) * 2.0; }});
  cases.push_back({"gather_rows", indexed({fixed(3), kM}, {kN, kM}),
                   [](Trace&, Given x) { return gather(x[0] * x[0], 0, x[1] % 3); }});
  cases.push_back(
      {"gather_middle", indexed({kN, fixed(3), kM}, {kN, fixed(2), kM}), [](Trace&, Given x) {
         const Tensor y = gather(exp(x[0]), 1, x[1] % 3);
         return y * y + slice(x[0], 1, 0, 2);
       }});
  cases.push_back({"gather_line", indexed({kN}, {kN}),
                   [](Trace&, Given x) { return gather(exp(x[0]), 0, x[1] / 2); }});
  cases.push_back({"gather_part", indexed({kN, fixed(3), kM}, {kN}), [](Trace&, Given x) {
                     const SymInt half = x[1].size(0) / 2;
                     const Tensor some = reshape(slice(x[1], 0, 0, half) % 3, {half, 1, 1});
                     return gather(x[0], 1, expand(some, {half, 5, x[0].size(2)})) * 3.0;
                   }});
  cases.push_back(
      {"take_along_dim", indexed({kN, fixed(1), fixed(4)}, {kM, fixed(2)}), [](Trace&, Given x) {
         return take_along_dim(exp(x[0]), unsqueeze(x[1] % 4 - 2, 0), -1) * 2.0;
       }});
  cases.push_back({"take", indexed({kN, kM}, {kM, kN}), [](Trace&, Given x) {
                     return take(exp(x[0]), x[1] / 2) + take(x[0], -1 - x[1]);
                   }});
  add_scatters(cases);
  add_tensors_of_indices(cases);
}

void add_movement(std::vector<OpCase>& cases) {
  const auto movement = [&](std::string name, std::vector<CaseDim> dims, auto body) {
    cases.push_back({std::move(name),
                     {{IndexFill::Signed, std::move(dims)}},
                     [body](Trace&, Given x) { return body(exp(x[0])) * 2.0; }});
  };
  movement("triangles", {kN, kM}, [](const Tensor& x) { return tril(x, -1) + triu(x, 1) * 3.0; });
  movement("diagonal", {kN, fixed(2), kM}, [](const Tensor& x) {
    return cat({diagonal(x, 0, 0, 2), diagonal(x, 1, 0, -1), diagonal(x, -2, 0, 2)}, 1);
  });
  movement("diag", {kN, kM}, [](const Tensor& x) { return diag(diag(x, 1), -2); });
  movement("diag_embed", {kN, kM},
           [](const Tensor& x) { return diag_embed(x, 1) + diag_embed(x, -1, 2, 1) * 3.0; });
  movement("roll", {kN, kM}, [](const Tensor& x) {
    return roll(x, {2, -1}, {0, 1}) + roll(x, {x.size(0)}) * 3.0;
  });
  movement("stack", {kN, kM}, [](const Tensor& x) {
    const std::vector<Tensor> parts = chunk(x, 3, 1);
    return stack({cat({parts[2], parts[0], parts[1]}, 1), x}, 1);
  });
  movement("unbind", {kN, fixed(3)}, [](const Tensor& x) {
    const std::vector<Tensor> columns = unbind(x, 1);
    return columns[0] * columns[2] + select(x, 1, -2);
  });
  movement("repeat", {kN, kM}, [](const Tensor& x) {
    return repeat(x, {2, x.size(1), 3}) + tile(x, {x.size(1), 3}) * 3.0;
  });
  movement("dims", {kN, fixed(6), kM}, [](const Tensor& x) {
    return movedim(unflatten(flatten(x, 1, 2), 1, {2, 3, -1}), {0, 1}, {-1, 0});
  });
  cases.push_back(
      {"meshgrid", {{IndexFill::Signed, {kN}}, {IndexFill::Signed, {kM}}}, [](Trace&, Given x) {
         const std::vector<Tensor> rows = meshgrid({x[0], exp(x[1])}),
                                   swapped = meshgrid({x[1], x[0]}, Indexing::Xy);
         return rows[0] * rows[1] + swapped[0] * swapped[1];
       }});
}

}  // namespace lockstep::worker::test
