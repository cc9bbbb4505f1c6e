#include <bit>

#include <fmt/format.h>

#include <lockstep/worker/exchange/conflict.h>
#include <lockstep/worker/exchange/exchange.h>

namespace lockstep::worker {
namespace {

bool differs(const SourceCell& cell, Code code) {
  switch (code) {
    case Code::SourceMismatch:
      return cell.missing;
    case Code::KindMismatch:
      return std::popcount(cell.kinds) > 1;
    case Code::DtypeMismatch:
      return std::popcount(cell.dtypes) > 1;
    case Code::NdimMismatch:
      return cell.least_ndim != cell.greatest_ndim;
    case Code::ConstantMismatch:
      return cell.truths == 3;
    default:
      return false;
  }
}

bool marked_both_ways(const DimCell& cell) {
  return cell.marked(Mark::Static) && (cell.marked(Mark::Dynamic) || cell.marked(Mark::Unbacked));
}

/// What is wrong and what to do next; `what` is the source or dim as users write it.
std::string sentence(Code code, std::string_view what, Mark mark) {
  switch (code) {
    case Code::SourceMismatch:
      return fmt::format(
          "input {} is present on some ranks and absent on others; pass it on every "
          "rank (a tensor without rows, as zeros({{0, 4}}), where there is nothing) or on none",
          what);
    case Code::KindMismatch:
      return fmt::format(
          "input {} is of different kinds on different ranks; pass the same kind of "
          "value on every rank",
          what);
    case Code::DtypeMismatch:
      return fmt::format(
          "tensor {} has different element types on different ranks; cast it to one "
          "type before the call",
          what);
    case Code::NdimMismatch:
      return fmt::format(
          "tensor {} has different numbers of dims on different ranks; reshape it to "
          "one number of dims before the call",
          what);
    case Code::ConstantMismatch:
      return fmt::format(
          "bool {} is true on some ranks and false on others, and bools are "
          "constants of the program; pass the same value on every rank",
          what);
    case Code::MarkConflict:
      return fmt::format(
          "{} is marked static on one rank and dynamic or unbacked on another; mark "
          "it alike on every rank",
          what);
    default:
      return fmt::format(
          "{} is marked {}, but its size differs between ranks; pad it to one "
          "size or remove the mark",
          what, mark_name(mark));
  }
}

std::string name_of(const Conflict& conflict) {
  return conflict.dim ? size_text(conflict.source, *conflict.dim) : conflict.source;
}

}  // namespace

std::optional<Conflict> find_conflict(const JointObservation& joint, const DecisionConfig& config) {
  if (config.consistency != Consistency::SharedSizes) {
    for (const Code code : {Code::SourceMismatch, Code::KindMismatch, Code::DtypeMismatch,
                            Code::NdimMismatch, Code::ConstantMismatch})
      for (const SourceCell& cell : joint.sources)
        if (differs(cell, code)) return Conflict{code, std::string(cell.name), std::nullopt};
  }
  const auto first_dim = [&](const auto& differs) -> std::optional<Conflict> {
    for (const SourceCell& cell : joint.sources)
      for (std::size_t d = 0; d < cell.dims.size(); ++d)
        if (differs(cell.dims[d])) return Conflict{{}, std::string(cell.name), d};
    return std::nullopt;
  };
  if (auto found = first_dim([](const DimCell& cell) { return marked_both_ways(cell); })) {
    found->code = Code::MarkConflict;
    return found;
  }
  for (const Mark mark : {Mark::Static, Mark::Uniform})
    if (auto found = first_dim([mark](const DimCell& cell) {
          return cell.marked(mark) && cell.least != cell.greatest;
        })) {
      found->code = Code::ConstraintViolation;
      found->mark = mark;
      return found;
    }
  return std::nullopt;
}

std::optional<std::string> conflict_value(const Conflict& conflict, const Observation& own) {
  const auto i = own.list->find(conflict.source);
  if (conflict.code == Code::SourceMismatch) return i ? "present" : "absent";
  if (!i) return std::nullopt;
  const SourceSpec& spec = own.list->sources()[*i];
  switch (conflict.code) {
    case Code::KindMismatch:
      return std::string(kind_name(spec.kind));
    case Code::DtypeMismatch:
      return std::string(dtype_name(spec.dtype));
    case Code::NdimMismatch:
      return std::to_string(spec.ndim);
    case Code::ConstantMismatch:
      return own.of(*i)[0] != 0 ? "true" : "false";
    default:
      break;
  }
  if (spec.kind != Kind::Tensor || !conflict.dim || *conflict.dim >= spec.ndim) return std::nullopt;
  if (conflict.code == Code::MarkConflict)
    return std::string(mark_name(own.mark(*i, *conflict.dim)));
  return std::to_string(own.of(*i)[*conflict.dim]);
}

Status conflict_status(const Conflict& conflict, std::string_view frame,
                       std::vector<RankValue> groups) {
  const std::string what = name_of(conflict);
  return {conflict.code, fmt::format("{}: {}", frame, sentence(conflict.code, what, conflict.mark)),
          what, std::move(groups)};
}

}  // namespace lockstep::worker
