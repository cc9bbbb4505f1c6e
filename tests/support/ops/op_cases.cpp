#include "op_cases.h"

#include <algorithm>
#include <random>

#include "op_case_lists.h"
#include "tracing.h"

#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/random_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::test {
namespace {

using Fill = CaseInput::Fill;
using In = const std::vector<Tensor>&;

void add_random(std::vector<OpCase>& cases) {
  cases.push_back(
      {"random", {{Fill::Order, {kN}}, {Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
         const std::vector<RankKey> keys = RankKey(sum(x[0])).split(6);
         const SymInt n = x[1].size(0), m = x[1].size(1);
         const Part part{{n * 3, m + 4}, {n, sum(x[0])}};
         const Tensor y = dropout(x[1], 0.4, keys[0].fold_in(m), part);
         const Tensor noise = uniform(keys[1], {n, m}, -1, 3, {.dtype = DType::F64}) +
                              normal(keys[2], {n, m}, {.dtype = DType::F64, .part = part});
         const Tensor numbers =
             randint(keys[3], {n, m}, -3, n + 2, part) + unsqueeze(permutation(keys[4], n), 1);
         const Tensor picked = unsqueeze(categorical(keys[5], cast(x[1], DType::F64), 1), 1);
         return where(bernoulli(keys[5], {n, m}, 0.5), y, x[1]) * noise +
                x[1] * cast(numbers + picked, DType::F64);
       }});
  cases.push_back(
      {"random_by_element", {{Fill::Order, {kN}}, {Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
         const RankKey key(sum(x[0]));
         const Sizes sizes = x[1].sizes();
         const Tensor kept = bernoulli(key.fold_in(1), x[1] * x[1]);
         const Tensor bits = random_bits(key, iota(sizes, 1), RandomStream::SecondDraw);
         return where(kept, x[1], x[1] * 2.0) *
                    normal(key.fold_in(2), sizes, 3, 0.5, {.dtype = DType::F64}) +
                cast(bits & 7, DType::F64);
       }});
}

void add_views(std::vector<OpCase>& cases) {
  cases.push_back({"reshape", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     const Tensor y = reshape(exp(x[0]), {x[0].size(1), -1});
                     return reshape(y, {-1}) * 2.0;
                   }});
  cases.push_back({"permute", {{Fill::Signed, {kN, fixed(3), kM}}}, [](Trace&, In x) {
                     return permute(exp(x[0]), {2, 0, 1});
                   }});
  cases.push_back({"transpose", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return transpose(exp(x[0]), 0, -1);
                   }});
  cases.push_back(
      {"expand", {{Fill::Signed, {fixed(1), kM}}, {Fill::Signed, {kN}}}, [](Trace&, In x) {
         return expand(exp(x[0]), {x[1].size(0), -1}) * unsqueeze(x[1], 1);
       }});
  cases.push_back({"squeeze", {{Fill::Signed, {kN, fixed(1)}}}, [](Trace&, In x) {
                     return squeeze(exp(x[0]), -1);
                   }});
  cases.push_back({"slice", {{Fill::Signed, {kN, fixed(5)}}}, [](Trace&, In x) {
                     const SymInt half = x[0].size(0) / 2;
                     return slice(slice(exp(x[0]), 1, 1, 3), 0, half, x[0].size(0) - half);
                   }});
  cases.push_back({"pad", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return exp(pad(pad(exp(x[0]), 0, 2, x[0].size(1)), 1, 0, 1));
                   }});
  cases.push_back(
      {"cat", {{Fill::Signed, {kN, fixed(3)}}, {Fill::Signed, {kM, fixed(3)}}}, [](Trace&, In x) {
         return cat({exp(x[0]), exp(x[1]), x[0]}, 0);
       }});
  cases.push_back(
      {"split", {{Fill::Signed, {kN, fixed(3)}}, {Fill::Signed, {kM, fixed(3)}}}, [](Trace&, In x) {
         const Tensor both = exp(cat({x[0], x[1]}, 0));
         return split(both, {x[0].size(0), x[1].size(0)}, 0)[1] * 2.0;
       }});
}

void add_flips(std::vector<OpCase>& cases) {
  cases.push_back({"flip", {{Fill::Signed, {kN, fixed(3), kM}}}, [](Trace&, In x) {
                     const Tensor turned = flip(exp(x[0]), {-1, 0});
                     return flip(pad(turned, 2, 1, 2), {2}) * flip(pad(x[0], 2, 2, 1), {1});
                   }});
}

void add_reductions(std::vector<OpCase>& cases) {
  cases.push_back({"sum", {{Fill::Signed, {kN, fixed(2), kM}}}, [](Trace&, In x) {
                     return exp(sum(x[0], {0, -1}));
                   }});
  cases.push_back(
      {"sum_all", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) { return sum(x[0] * x[0]); }});
  cases.push_back({"sum_keep", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return x[0] * sum(x[0], {1}, Keep::Keep);
                   }});
  cases.push_back({"mean", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return x[0] * mean(x[0], {1}, Keep::Keep);
                   }});
  cases.push_back({"amax", {{Fill::Signed, {kN, fixed(4)}}}, [](Trace&, In x) {
                     return exp(amax(x[0], {1}));
                   }});
  cases.push_back({"amin", {{Fill::Signed, {fixed(3), kM, fixed(2)}}}, [](Trace&, In x) {
                     return x[0] * amin(x[0], {0, 2}, Keep::Keep);
                   }});
  cases.push_back({"argmax", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return cast(argmax(x[0], 1), DType::F64) + sum(x[0], {1});
                   }});
  cases.push_back(
      {"softmax", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) { return softmax(x[0] * 3.0, 1); }});
  cases.push_back({"log_softmax", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     return log_softmax(x[0] * 3.0, 0);
                   }});
  cases.push_back({"logsumexp", {{Fill::Signed, {kN, fixed(3)}}}, [](Trace&, In x) {
                     return logsumexp(x[0], -1);
                   }});
  cases.push_back(
      {"cumsum", {{Fill::Signed, {kN}}}, [](Trace&, In x) { return exp(cumsum(x[0])); }});
}

void add_products(std::vector<OpCase>& cases) {
  cases.push_back({"matmul",
                   {{Fill::Signed, {kN, kM}}, {Fill::Signed, {kM, fixed(3)}}},
                   [](Trace&, In x) { return matmul(x[0], x[1]); }});
  cases.push_back({"matmul_batched",
                   {{Fill::Signed, {kN, fixed(2), kM}}, {Fill::Signed, {kN, kM, fixed(3)}}},
                   [](Trace&, In x) { return matmul(x[0], x[1]); }});
  cases.push_back({"matmul_folded",
                   {{Fill::Signed, {kN, kM, fixed(2)}}, {Fill::Signed, {fixed(2), fixed(3)}}},
                   [](Trace&, In x) { return matmul(x[0], x[1]); }});
  cases.push_back({"segment_matmul",
                   {{Fill::Signed, {kN, fixed(2)}},
                    {Fill::Signed, {fixed(3), fixed(2), kM}},
                    {Fill::Splits, {fixed(3)}}},
                   [](Trace&, In x) { return segment_matmul(x[0], x[1], x[2]); }});
  cases.push_back(
      {"segment_outer",
       {{Fill::Signed, {kN, fixed(2)}}, {Fill::Signed, {kN, kM}}, {Fill::Splits, {fixed(3)}}},
       [](Trace& t, In x) {
         t.env().check(shapes::equal(meta_of(x[0]).sizes[0], meta_of(x[1]).sizes[0]), {});
         const Tensor y =
             view(x[1], {meta_of(x[0]).sizes[0], meta_of(x[1]).sizes[1]}, Line::current());
         return emit(Op::SegmentOuter, {x[0], y, x[2]}, {}, Line::current());
       }});
}

void add_indexing(std::vector<OpCase>& cases) {
  cases.push_back(
      {"index_select", {{Fill::Signed, {kN, kM}}, {Fill::Order, {kN}}}, [](Trace&, In x) {
         return cat({index_select(exp(x[0]), x[1]), index_select(x[0], x[1] / 2)}, 0);
       }});
  cases.push_back({"index_add", {{Fill::Signed, {kN, kM}}, {Fill::Order, {kN}}}, [](Trace&, In x) {
                     return exp(index_add(x[0].size(0) + 1, x[1] / 2, x[0]));
                   }});
  cases.push_back({"argsort", {{Fill::Signed, {kN}}}, [](Trace&, In x) {
                     return index_select(exp(x[0]), argsort(x[0])) *
                            cast(iota(x[0].sizes(), 0), DType::F64);
                   }});
  cases.push_back(
      {"segment_ids", {{Fill::Signed, {kN}}, {Fill::Splits, {fixed(3)}}}, [](Trace&, In x) {
         return x[0] * cast(segment_ids(x[1], x[0].size(0)), DType::F64);
       }});
  cases.push_back(
      {"one_hot", {{Fill::Signed, {kN, fixed(3)}}, {Fill::Splits, {fixed(3)}}}, [](Trace&, In x) {
         return x[0] * one_hot(segment_ids(x[1], x[0].size(0)), 3, DType::F64);
       }});
  cases.push_back(
      {"read_back", {{Fill::Signed, {kN, kM}}, {Fill::Splits, {fixed(2)}}}, [](Trace&, In x) {
         const std::vector<SymInt> counts = tolist(x[1], Values::NonNegative);
         const SymInt total = item(sum(x[1]));
         check(total == x[0].size(0));
         check(counts[0] + counts[1] == x[0].size(0));
         return slice(x[0], 0, counts[0], counts[1]) * (total + 1);
       }});
  cases.push_back({"full", {{Fill::Signed, {kN, kM}}}, [](Trace& t, In x) {
                     const Tensor rows = full({x[0].size(0), 1}, 1.5, DType::F64) + ones_like(x[0]);
                     return x[0] * rows + cast(arange(x[0].size(1)), DType::F64) +
                            zeros(t, {1}, DType::F64);
                   }});
}

/// Ops whose results have as many elements as the data says.
void add_selection(std::vector<OpCase>& cases) {
  cases.push_back({"any", {{Fill::Signed, {kN, kM}}}, [](Trace&, In x) {
                     const Tensor row = any(x[0] > 1.0, {1}, Keep::Keep),
                                  each = all(x[0] > -1.0, {0});
                     return where(row & each, x[0], x[0] * 2.0);
                   }});
  cases.push_back({"nonzero", {{Fill::Signed, {kN, kM, fixed(2)}}}, [](Trace&, In x) {
                     const Tensor at = nonzero(relu(x[0]));
                     return cast(at, DType::F64) * cast(scalar(at.size(0)), DType::F64);
                   }});
  cases.push_back({"nonzero_mask", {{Fill::Signed, {kN}}}, [](Trace&, In x) {
                     const Tensor mask = x[0] > 0.0;
                     return index_select(exp(x[0]), squeeze(nonzero(mask), 1)) * 2.0;
                   }});
  cases.push_back({"masked_select",
                   {{Fill::Signed, {kN, kM}}, {Fill::Signed, {kM}}},
                   [](Trace&, In x) { return masked_select(exp(x[0]) * x[1], x[1] < 0.3); }});
  cases.push_back({"boolean_index",
                   {{Fill::Signed, {kN, fixed(2), kM}}, {Fill::Signed, {kN}}},
                   [](Trace&, In x) {
                     const Tensor rows = exp(x[0])[x[1] < 0.3];
                     return cat({rows, x[0][x[1] >= 0.3], rows * rows}, 0);
                   }});
  cases.push_back({"unique", {{Fill::Signed, {kN}}}, [](Trace&, In x) {
                     const Unique u = unique(cat({x[0], x[0] * 1.0}, 0));
                     const Tensor back = index_select(exp(u.values), u.inverse);
                     return cat({u.values * cast(u.counts, DType::F64), back}, 0);
                   }});
  cases.push_back({"repeat_interleave",
                   {{Fill::Signed, {kN, kM}}, {Fill::Order, {kN}}},
                   [](Trace&, In x) { return repeat_interleave(exp(x[0]), x[1] % 3, 0) * 2.0; }});
  cases.push_back({"repeat_interleave_list",
                   {{Fill::Signed, {kN, fixed(3)}}, {Fill::Signed, {kM}}},
                   [](Trace&, In x) {
                     return repeat_interleave(exp(x[0]), {x[1].size(0), 0, 2}, 1) * 2.0;
                   }});
  cases.push_back({"repeat_interleave_all", {{Fill::Signed, {kN, kM, fixed(2)}}}, [](Trace&, In x) {
                     return repeat_interleave(repeat_interleave(exp(x[0]), x[0].size(0), 1), 3, -1);
                   }});
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    add_elementwise(cases);
    add_views(cases);
    add_flips(cases);
    add_reductions(cases);
    add_products(cases);
    add_indexing(cases);
    add_selection(cases);
    add_collectives(cases);
    add_gathers(cases);
    add_movement(cases);
    add_order(cases);
    add_control(cases);
    add_layers(cases);
    add_own(cases);
    add_random(cases);
    return cases;
  }();
  return all;
}

std::string case_input_name(std::size_t i) { return std::string(1, static_cast<char>('a' + i)); }

namespace {

std::vector<std::int64_t> sizes_of(const CaseInput& input, std::int64_t n, std::int64_t m) {
  std::vector<std::int64_t> sizes;
  for (const CaseDim& dim : input.dims)
    sizes.push_back(dim.which == CaseDim::Which::N   ? n
                    : dim.which == CaseDim::Which::M ? m
                                                     : dim.value);
  return sizes;
}
bool is_integer(const CaseInput& input) {
  return input.fill == Fill::Splits || input.fill == Fill::Order;
}

}  // namespace

std::vector<Array> case_values(const OpCase& op_case, std::int64_t n, std::int64_t m, int rank,
                               std::uint64_t seed) {
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(rank));
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<Array> values;
  for (const CaseInput& input : op_case.inputs) {
    Array array = Array::zeros(is_integer(input) ? DType::I64 : DType::F64, sizes_of(input, n, m));
    const std::int64_t count = array.elements();
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
    for (std::int64_t i = count - 1; i > 0; --i)
      std::swap(order[static_cast<std::size_t>(i)],
                order[random() % static_cast<std::uint64_t>(i + 1)]);
    for (std::int64_t i = 0; i < count; ++i) {
      if (input.fill == Fill::Positive) array.set(i, 0.5 + unit());
      if (input.fill == Fill::Signed) array.set(i, (0.1 + 1.4 * unit()) * (random() % 2 ? 1 : -1));
      if (input.fill == Fill::Order)
        array.set(i, static_cast<double>(order[static_cast<std::size_t>(i)]));
    }
    for (std::int64_t left = n; input.fill == Fill::Splits && left > 0; --left) {
      const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
      array.set(at, array.at(at) + 1);
    }
    values.push_back(std::move(array));
  }
  return values;
}

Decision case_decision(const OpCase& op_case, std::int64_t n, std::int64_t m, bool symbolic) {
  DecisionBuilder builder;
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    const CaseInput& input = op_case.inputs[i];
    std::vector<Dim> dims;
    const std::vector<std::int64_t> sizes = sizes_of(input, n, m);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      dims.push_back(symbolic && input.dims[d].which != CaseDim::Which::Fixed ? dynamic(sizes[d], 0)
                                                                              : Dim(sizes[d]));
    builder.tensor(case_input_name(i), is_integer(input) ? DType::I64 : DType::F64, dims);
  }
  return builder.get();
}

}  // namespace lockstep::worker::test
