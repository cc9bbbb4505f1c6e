#include <fmt/format.h>

#include <lockstep/worker/codegen/scalar_text.h>
#include <lockstep/worker/codegen/scan_text.h>
#include <lockstep/worker/graph/op_map.h>

namespace lockstep::worker {
namespace {

ScanText sum_scan(DType dtype) {
  return {{{dtype, "total", "0"}},
          fmt::format("total += ({}){{v}};", c_type(dtype)),
          "total += part_total;",
          "total"};
}

ScanText product_scan(DType dtype) {
  return {{{dtype, "total", "1"}},
          fmt::format("total *= ({}){{v}};", c_type(dtype)),
          "total *= part_total;",
          "total"};
}

/// A comparison passes over NaN, so it is looked for on its own.
ScanText largest_scan(DType dtype) {
  return {{{dtype, "best", "0"}, {DType::I64, "total", "-1"}},
          "if (total < 0 || {v} >= best || {v} != {v}) {{\n  best = {v};\n  total = {at};\n}}",
          "if (part_total >= 0 && (total < 0 || part_best >= best || part_best != part_best)) {\n"
          "  best = part_best;\n  total = part_total;\n}",
          "total"};
}

/// The largest element, and the sum of exponentials of what the others are less than it.
ScanText log_sum_scan(DType dtype) {
  return {{{dtype, "most", extreme_text(dtype, true)}, {dtype, "sum", "0"}},
          fmt::format("add_exp(most, sum, {{v}}, ({})1);", c_type(dtype)),
          "add_exp(most, sum, part_most, part_sum);",
          "most + log_(sum)"};
}

constexpr OpMap<ScanText (*)(DType)> kScans(is_scan, {{Op::Cumsum, sum_scan},
                                                      {Op::Cumprod, product_scan},
                                                      {Op::CumArgmax, largest_scan},
                                                      {Op::LogCumsumExp, log_sum_scan}});

}  // namespace

std::string ScanText::Kept::declared(std::string_view value) const {
  return fmt::format("{} {} = {};", c_type(dtype), name, value);
}

ScanText scan_text(Op op, DType dtype) { return kScans[op](dtype); }

}  // namespace lockstep::worker
