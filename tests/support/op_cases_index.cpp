#include "op_case_lists.h"

#include <lockstep/worker/trace/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

using IndexFill = CaseInput::Fill;
using Given = const std::vector<Tensor>&;

}  // namespace

void add_gathers(std::vector<OpCase>& cases) {
  cases.push_back({"gather",
                   {{IndexFill::Signed, {kN, fixed(4)}}, {IndexFill::Order, {kN, kM}}},
                   [](Trace&, Given x) { return gather(exp(x[0]), -1, x[1] % 4) * 2.0; }});
  cases.push_back({"gather_rows",
                   {{IndexFill::Signed, {fixed(3), kM}}, {IndexFill::Order, {kN, kM}}},
                   [](Trace&, Given x) { return gather(x[0] * x[0], 0, x[1] % 3); }});
  cases.push_back(
      {"gather_middle",
       {{IndexFill::Signed, {kN, fixed(3), kM}}, {IndexFill::Order, {kN, fixed(2), kM}}},
       [](Trace&, Given x) {
         const Tensor y = gather(exp(x[0]), 1, x[1] % 3);
         return y * y + slice(x[0], 1, 0, 2);
       }});
  cases.push_back({"gather_line",
                   {{IndexFill::Signed, {kN}}, {IndexFill::Order, {kN}}},
                   [](Trace&, Given x) { return gather(exp(x[0]), 0, x[1] / 2); }});
  cases.push_back({"gather_part",
                   {{IndexFill::Signed, {kN, fixed(3), kM}}, {IndexFill::Order, {kN}}},
                   [](Trace&, Given x) {
                     const SymInt half = x[1].size(0) / 2;
                     const Tensor some = reshape(slice(x[1], 0, 0, half) % 3, {half, 1, 1});
                     return gather(x[0], 1, expand(some, {half, 5, x[0].size(2)})) * 3.0;
                   }});
  cases.push_back(
      {"take", {{IndexFill::Signed, {kN, kM}}, {IndexFill::Order, {kM, kN}}}, [](Trace&, Given x) {
         return take(exp(x[0]), x[1] / 2) + take(x[0], -1 - x[1]);
       }});
}

}  // namespace lockstep::worker::test
