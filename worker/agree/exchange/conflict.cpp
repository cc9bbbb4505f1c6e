#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/conflict.h>
#include <lockstep/worker/agree/exchange/exchange.h>

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

bool differs(const FieldCell& cell, Code code) {
  switch (code) {
    case Code::SourceMismatch:
      return cell.missing;
    case Code::KindMismatch:
      return cell.clash;
    case Code::ConstantMismatch:
      return cell.differs;
    case Code::BadInput:
      return cell.too_large;
    default:
      return false;
  }
}

std::optional<Conflict> find_field(const JointObservation& joint, Code code) {
  for (const FieldCell& cell : joint.fields)
    if (differs(cell, code))
      return Conflict{.code = code,
                      .source = cell.spec.name,
                      .dim = {},
                      .field = true,
                      .object = cell.spec.type == FieldType::Object};
  return std::nullopt;
}

bool marked_both_ways(const DimCell& cell) {
  return cell.marked(Mark::Static) && (cell.marked(Mark::Dynamic) || cell.marked(Mark::Unbacked));
}

/// The error and its remedy; `what` is the source or dim as users write it.
std::string sentence(Code code, std::string_view what, Mark mark) {
  switch (code) {
    case Code::SourceMismatch:
      if (what.find('=') != std::string_view::npos)  // a constant: its value is part of its name
        return fmt::format(
            "value {} is given on some ranks and not on others; pass the same value on every rank",
            what);
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

std::string object_sentence(Code code, std::string_view what) {
  if (code == Code::SourceMismatch)
    return fmt::format(
        "object {} is present on some ranks and absent on others; pass it on every rank or on none",
        what);
  return fmt::format(
      "object {} is another one on some ranks, and what is read of an object is a constant of the "
      "program; pass the same one on every rank, in the same order of first use where it has no "
      "hash, or declare which objects are equal (Opaque<T, Same>)",
      what);
}

std::string field_sentence(Code code, std::string_view what) {
  switch (code) {
    case Code::SourceMismatch:
      return fmt::format(
          "field {} is present on some ranks and absent on others; observe it on every rank or on "
          "none",
          what);
    case Code::KindMismatch:
      return fmt::format(
          "field {} has different types or joins on different ranks; observe it with one type and "
          "one join on every rank",
          what);
    case Code::ConstantMismatch:
      return fmt::format(
          "field {} is to be equal on all ranks, but differs; give the same value on every rank, "
          "or "
          "observe it with another join",
          what);
    default:
      return fmt::format(
          "the union of field {} is larger than {} bytes; observe fewer or shorter values", what,
          kMostUnionBytes);
  }
}

std::string name_of(const Conflict& conflict) {
  return conflict.dim ? size_text(conflict.source, *conflict.dim) : conflict.source;
}

}  // namespace

std::optional<Conflict> find_conflict(const JointObservation& joint, const DecisionConfig& config) {
  for (const Code code : {Code::SourceMismatch, Code::KindMismatch, Code::DtypeMismatch,
                          Code::NdimMismatch, Code::ConstantMismatch}) {
    if (config.consistency != Consistency::SharedSizes)
      for (const SourceCell& cell : joint.sources)
        if (differs(cell, code)) return Conflict{code, std::string(cell.name), std::nullopt};
    if (auto found = find_field(joint, code)) return found;
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
  return find_field(joint, Code::BadInput);
}

namespace {

std::optional<std::string> field_line(const Conflict& conflict, const Observation& own) {
  const auto field = std::find_if(own.fields.begin(), own.fields.end(),
                                  [&](const Field& f) { return f.spec.name == conflict.source; });
  const bool present = field != own.fields.end();
  if (conflict.code == Code::SourceMismatch) return present ? "present" : "absent";
  if (!present) return std::nullopt;
  if (conflict.code == Code::KindMismatch) return spec_text(field->spec);
  if (conflict.code == Code::ConstantMismatch) return value_text(field->spec.type, field->value);
  return fmt::format("{} bytes", bytes_of(field->spec.type, field->value));
}

}  // namespace

std::optional<std::string> conflict_value(const Conflict& conflict, const Observation& own) {
  if (conflict.field) return field_line(conflict, own);
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
  const bool object = conflict.object && conflict.code != Code::KindMismatch;
  const std::string said = object           ? object_sentence(conflict.code, what)
                           : conflict.field ? field_sentence(conflict.code, what)
                                            : sentence(conflict.code, what, conflict.mark);
  return {conflict.code, fmt::format("{}: {}", frame, said), what, std::move(groups)};
}

std::optional<Status> fields_error(const Observation& own) {
  const auto taken = [](const std::string& name, std::string_view by) {
    return bad_input(fmt::format("field {} has the name of {}; give it another", name, by), name);
  };
  for (std::size_t i = 0; i < own.fields.size(); ++i) {
    const std::string& name = own.fields[i].spec.name;
    if (auto wrong = field_error(own.fields[i])) return wrong;
    if (i > 0 && own.fields[i - 1].spec.name >= name) return taken(name, "another field");
    if (own.list->find(name)) return taken(name, "an input");
  }
  return std::nullopt;
}

}  // namespace lockstep::worker
