#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/drawn_report.h>
#include <lockstep/worker/simulator/cluster/json_text.h>

namespace lockstep::worker::simulator {
namespace {

std::string counted(std::size_t n, std::string_view one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

std::string range_text(const MarkedDim& dim) {
  return dim.least < dim.greatest ? fmt::format("{} to {}", dim.least, dim.greatest)
                                  : std::to_string(dim.least);
}

std::string lockstep_line(const MarkedDim& dim) {
  return fmt::format("mark {} {}  # {}: {}, {}", size_text(dim.source, dim.dim),
                     mark_name(dim.mark), dim.frame, range_text(dim),
                     counted(dim.compiles, "compile"));
}

}  // namespace

std::string torch_line(const MarkedDim& dim) {
  const bool unbacked = dim.mark == Mark::Unbacked;
  return fmt::format("torch._dynamo.{}({}, {})  # {}: {}, {}",
                     unbacked ? "decorators.mark_unbacked" : "mark_dynamic", dim.source, dim.dim,
                     dim.frame, range_text(dim), counted(dim.compiles, "compile"));
}

std::string torch_lines(const std::vector<MarkedDim>& dims) {
  std::string out;
  for (const MarkedDim& dim : dims) out += torch_line(dim) + "\n";
  return out;
}

std::string drawn_json(const DrawnFrom& drawn) {
  return json_text(nlohmann::ordered_json{
      {"ranks", drawn.ranks},
      {"seed", drawn.seed},
      {"inputs", drawn.inputs},
      {"calls_as_recorded", drawn.as_recorded},
      {"calls_left_out", drawn.left_out},
      {"conditions",
       {{"known", drawn.conditions_known}, {"not_known", drawn.conditions_not_known}}}});
}

std::string advice_json(const MarkAdvice& advice) {
  nlohmann::ordered_json marks = nlohmann::ordered_json::array();
  for (const MarkedDim& dim : advice.dims) {
    nlohmann::ordered_json one{{"frame", dim.frame},      {"source", dim.source},
                               {"dim", dim.dim},          {"mark", mark_name(dim.mark)},
                               {"least", dim.least},      {"greatest", dim.greatest},
                               {"compiles", dim.compiles}};
    if (advice.torch) one["line"] = torch_line(dim);
    marks.push_back(std::move(one));
  }
  return json_text(nlohmann::ordered_json{
      {"marks", std::move(marks)},
      {"compiles", advice.compiles},
      {"compiles_if_marked", advice.compiles_if_marked
                                 ? nlohmann::ordered_json(*advice.compiles_if_marked)
                                 : nlohmann::ordered_json(nullptr)}});
}

std::string drawn_summary(const DrawnFrom& drawn) {
  std::string out =
      fmt::format("drawn        from {} that {} had, seed {}", counted(drawn.inputs, "input"),
                  counted(drawn.ranks, "rank"), drawn.seed);
  if (drawn.as_recorded > 0)
    out += fmt::format("; {} as recorded", counted(drawn.as_recorded, "call"));
  if (drawn.left_out > 0)
    out += fmt::format("; {} left out, to which a rank brought an error of its own",
                       counted(drawn.left_out, "call"));
  out += '\n';
  if (drawn.conditions_not_known > 0)
    out += fmt::format(
        "conditions   on sizes are not known of {}, which no rank traced; of {} they are\n",
        counted(drawn.conditions_not_known, "version"), drawn.conditions_known);
  return out;
}

std::string advice_summary(const MarkAdvice& advice) {
  std::string out;
  for (const MarkedDim& dim : advice.dims)
    out += fmt::format("{:<13}{}\n", out.empty() ? "to mark" : "",
                       advice.torch ? torch_line(dim) : lockstep_line(dim));
  if (!advice.dims.empty() && advice.compiles_if_marked)
    out += fmt::format("             marked so, the job has {} in place of {}\n",
                       counted(*advice.compiles_if_marked, "compile"), advice.compiles);
  return out;
}

}  // namespace lockstep::worker::simulator
