// Collectives, also of rows that differ between ranks.
#include "op_case_lists.h"

#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::test {
namespace {

using JointFill = CaseInput::Fill;
using JointIn = const std::vector<Tensor>&;

void add_even_rows(std::vector<OpCase>& cases) {
  const auto exchanged = [](Trace&, JointIn x) {
    const std::vector<SymInt> in = tolist(x[1]), out = tolist(all_to_all_single(x[1]));
    const Tensor there = all_to_all_single(exp(x[0]), out, in);
    const Tensor back = all_to_all_single(there * there, in, out);
    return back * x[0] + sum(there, {0}, Keep::Keep);
  };
  cases.push_back({"all_to_all_single",
                   {{JointFill::Signed, {kN, kM}}, {JointFill::Splits, {fixed(2)}}},
                   exchanged,
                   2});
  cases.push_back({"all_to_all_even",
                   {{JointFill::Signed, {fixed(4), fixed(2)}}},
                   [](Trace&, JointIn x) { return all_to_all_single(exp(x[0])) * x[0]; },
                   2});
  cases.push_back({"all_reduce",
                   {{JointFill::Signed, {kN, fixed(3)}}},
                   [](Trace& t, JointIn x) {
                     return exp(all_reduce(sum(x[0], {0}))) +
                            all_reduce(cast(t.rank(), DType::F64), collectives::Reduce::Max);
                   },
                   3});
  cases.push_back({"all_gather",
                   {{JointFill::Signed, {fixed(2), fixed(3)}}},
                   [](Trace&, JointIn x) {
                     const Tensor all = all_gather(x[0]);
                     return all * all;
                   },
                   3});
  cases.push_back({"reduce_scatter",
                   {{JointFill::Signed, {fixed(6), fixed(2)}}},
                   [](Trace&, JointIn x) {
                     const Tensor mine = reduce_scatter(x[0]);
                     return mine * mine;
                   },
                   3});
  cases.push_back({"broadcast",
                   {{JointFill::Signed, {fixed(2)}}},
                   [](Trace&, JointIn x) { return broadcast(detach(x[0]), Rank{1}) * x[0]; },
                   2});
}

void add_uneven_rows(std::vector<OpCase>& cases) {
  const std::vector<CaseInput> rows{{JointFill::Signed, {kN, fixed(2)}}};
  cases.push_back({"all_gather_uneven", rows,
                   [](Trace&, JointIn x) {
                     const Tensor all = all_gather(exp(x[0]), 0);
                     const Sizes sizes = sizes_of_ranks(x[0], x[0].size(0));
                     return sum(all * all, {0}) * x[0] * cast(scalar(sizes[1]), DType::F64);
                   },
                   3});
  cases.push_back({"reduce_scatter_uneven", rows,
                   [](Trace&, JointIn x) {
                     const Tensor all = all_gather(transpose(x[0], 0, 1), 1);
                     const Tensor mine = reduce_scatter(all * all, x[0].size(0), 1);
                     return transpose(mine, 0, 1) * x[0];
                   },
                   2});
  cases.push_back(
      {"send_recv", rows,
       [](Trace&, JointIn x) {
         const Tensor from_last = send_recv(sin(x[0]), {{Rank{0}, Rank{1}}, {Rank{1}, Rank{0}}});
         const Tensor one_way = send_recv(x[0] * x[0], {{Rank{1}, Rank{0}}});
         return cat({from_last * 2.0, one_way, x[0] * cast(group_rank(x[0]), DType::F64)}, 0);
       },
       2});
  cases.push_back({"check_same",
                   {{JointFill::Signed, {fixed(3), fixed(2)}}},
                   [](Trace&, JointIn x) {
                     check_same(x[0].size(0));
                     return all_reduce(x[0] * x[0]) * x[0];
                   },
                   2});
}

}  // namespace

void add_collectives(std::vector<OpCase>& cases) {
  add_even_rows(cases);
  add_uneven_rows(cases);
}

}  // namespace lockstep::worker::test
