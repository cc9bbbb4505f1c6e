#include <bit>

#include <fmt/format.h>

#include <lockstep/worker/files/saved/stored_parts.h>

namespace lockstep::worker {
namespace {

/// Most dims of a tensor.
constexpr std::size_t kMostDims = 64;

StoredPredicate stored(TextWriter& texts, const shapes::Predicate& predicate) {
  return {static_cast<std::uint8_t>(predicate.relation), texts.id(predicate.expr)};
}

shapes::Predicate predicate_of(TextReader& texts, const StoredPredicate& from) {
  const auto relation = enum_of<shapes::Predicate::Relation>(from.relation, 3, "such relation");
  const shapes::Expr& expr = texts.expr(from.expr);
  shapes::Predicate out = shapes::predicate_of(relation, expr);
  if (out.relation != relation || out.expr != expr)
    throw StoredFlaw(fmt::format("a condition on {} is not in its normal form", expr.text()));
  return out;
}

StoredDim stored(const DimDecision& dim) {
  return {static_cast<std::uint8_t>(dim.is_symbol ? 1 : 0),
          dim.is_symbol ? std::int64_t{dim.symbol} : dim.value};
}

StoredSource stored(TextWriter& texts, const SourceDecision& source) {
  return {texts.id(source.spec.name), static_cast<std::uint8_t>(source.spec.kind),
          static_cast<std::uint8_t>(source.spec.dtype),
          each<StoredDim>(source.dims, [](const DimDecision& dim) { return stored(dim); })};
}

StoredSize stored(TextWriter& texts, const SymbolDecision& symbol) {
  const auto flag = [](bool value) { return static_cast<std::uint8_t>(value ? 1 : 0); };
  return {texts.id(symbol.source),
          flag(symbol.unbacked),
          flag(symbol.min.has_value()),
          flag(symbol.pinned_is_error),
          flag(symbol.settled),
          symbol.min.value_or(0),
          symbol.hint};
}

StoredField stored(TextWriter& texts, const JoinedField& field) {
  return {texts.id(field.spec.name), static_cast<std::uint8_t>(field.spec.type),
          static_cast<std::uint8_t>(field.spec.join),
          each<StoredFieldValue>(field.values, [&](const FieldValue& value) {
            return StoredFieldValue{value.number, texts.id(value.bytes)};
          })};
}

std::size_t places_of(Kind kind, std::size_t dims) {
  return kind == Kind::Tensor ? dims : kind == Kind::Float ? 0 : 1;
}

/// Checks that symbols are numbered in the order of their places, each place with a symbol of its
/// own. `next` is the number of the next symbol.
SourceDecision source_of(TextReader& texts, const StoredSource& from, std::size_t& next) {
  SourceDecision out;
  out.spec.name = texts.text(from.name);
  out.spec.kind = enum_of<Kind>(from.kind, 4, "such kind of input");
  out.spec.dtype = dtype_of(from.dtype);
  const bool tensor = out.spec.kind == Kind::Tensor;
  if (from.dims.size() > kMostDims ||
      places_of(out.spec.kind, from.dims.size()) != from.dims.size())
    throw StoredFlaw(fmt::format("input {} has {} sizes", out.spec.name, from.dims.size()));
  out.spec.ndim = tensor ? static_cast<std::uint32_t>(from.dims.size()) : 0;
  for (const StoredDim& dim : from.dims) {
    DimDecision& made = out.dims.emplace_back();
    made.is_symbol = flag_of(dim.is_symbol);
    if (made.is_symbol &&
        (out.spec.kind == Kind::Bool || dim.value != static_cast<std::int64_t>(next)))
      throw StoredFlaw(fmt::format("a size of input {} is no symbol of its own", out.spec.name));
    if (made.is_symbol) made.symbol = static_cast<std::uint32_t>(next++);
    if (!made.is_symbol) made.value = dim.value;
    if ((tensor && made.value < 0) || (out.spec.kind == Kind::Bool && (made.value & ~1) != 0))
      throw StoredFlaw(fmt::format("input {} is {}", out.spec.name, made.value));
  }
  return out;
}

SymbolDecision size_of(TextReader& texts, const StoredSize& from) {
  SymbolDecision out;
  out.source = texts.text(from.source);
  out.unbacked = flag_of(from.unbacked);
  if (flag_of(from.has_min)) out.min = from.min;
  out.pinned_is_error = flag_of(from.pinned_is_error);
  out.settled = flag_of(from.settled);
  out.hint = from.hint;
  return out;
}

JoinedField field_of(TextReader& texts, const StoredField& from) {
  JoinedField out;
  out.spec.name = texts.text(from.name);
  out.spec.type = enum_of<FieldType>(from.type, kFieldTypes, "such type of field");
  out.spec.join = enum_of<FieldJoin>(from.join, kFieldJoins, "such way to join a field");
  for (const StoredFieldValue& value : from.values)
    out.values.push_back({value.number, texts.text(value.bytes)});
  if (out.values.empty() || (out.spec.join != FieldJoin::Union && out.values.size() != 1))
    throw StoredFlaw(fmt::format("field {} has {} values", out.spec.name, out.values.size()));
  return out;
}

template <class Element, class Name>
void need_order(const std::vector<Element>& all, const Name& name) {
  for (std::size_t i = 1; i < all.size(); ++i)
    if (!(name(all[i - 1]) < name(all[i])))
      throw StoredFlaw(fmt::format("{} does not come after {}", name(all[i]), name(all[i - 1])));
}

}  // namespace

StoredLine stored(TextWriter& texts, const shapes::Location& where) {
  return {texts.id(where.file), where.line};
}
StoredSymbol stored(const shapes::Symbol& symbol) {
  return {static_cast<std::uint8_t>(symbol.unbacked ? 1 : 0), symbol.serial};
}
StoredGuard stored(TextWriter& texts, const shapes::Guard& guard) {
  return {stored(texts, guard.predicate), stored(texts, guard.where), texts.id(guard.note)};
}
StoredGuard stored(TextWriter& texts, const shapes::DeferredAssert& check) {
  return {stored(texts, check.predicate), stored(texts, check.where), texts.id(check.message)};
}
StoredGroupGuard stored(TextWriter& texts, const GroupGuard& guard) {
  return {stored(texts, guard.predicate), static_cast<std::uint8_t>(guard.over),
          static_cast<std::uint8_t>(guard.value ? 1 : 0), stored(texts, guard.where)};
}
StoredUniform stored(TextWriter& texts, const UniformSize& size) {
  return {texts.id(size.expr), texts.id(size.group), texts.id(size.what),
          stored(texts, size.where)};
}
std::vector<StoredStep> stored(TextWriter& texts, const HostValue& value) {
  return each<StoredStep>(value.steps, [&](const HostValue::Step& step) {
    return StoredStep{static_cast<std::uint8_t>(step.code), texts.id(step.source),
                      std::bit_cast<std::uint64_t>(step.number)};
  });
}
StoredDecision stored(TextWriter& texts, const Decision& decision) {
  const auto same = [&](const auto& one) { return stored(texts, one); };
  return {each<StoredSource>(decision.sources, same), each<StoredSize>(decision.symbols, same),
          each<StoredField>(decision.fields, same)};
}

shapes::Location location_of(TextReader& texts, const StoredLine& line) {
  return {texts.text(line.file), line.line};
}
shapes::Symbol symbol_of(const StoredSymbol& symbol) {
  return {flag_of(symbol.unbacked), symbol.serial};
}
shapes::Guard guard_of(TextReader& texts, const StoredGuard& guard) {
  return {predicate_of(texts, guard.predicate), location_of(texts, guard.where),
          texts.text(guard.note)};
}
shapes::DeferredAssert assert_of(TextReader& texts, const StoredGuard& check) {
  return {predicate_of(texts, check.predicate), location_of(texts, check.where),
          texts.text(check.note)};
}
GroupGuard group_guard_of(TextReader& texts, const StoredGroupGuard& guard) {
  return {predicate_of(texts, guard.predicate),
          enum_of<GroupGuard::Over>(guard.over, 2, "such question to a group"),
          flag_of(guard.value), location_of(texts, guard.where)};
}
UniformSize uniform_of(TextReader& texts, const StoredUniform& size) {
  return {texts.expr(size.expr), texts.text(size.group), texts.text(size.what),
          location_of(texts, size.where)};
}
HostValue host_value_of(TextReader& texts, const std::vector<StoredStep>& steps) {
  return {each<HostValue::Step>(steps, [&](const StoredStep& step) {
    return HostValue::Step{enum_of<HostValue::Code>(step.code, kHostCodes, "such step of a value"),
                           texts.text(step.source), std::bit_cast<double>(step.number)};
  })};
}

Decision decision_of(TextReader& texts, const StoredDecision& from) {
  Decision out;
  std::size_t next = 0;
  for (const StoredSource& source : from.sources)
    out.sources.push_back(source_of(texts, source, next));
  for (const StoredSize& symbol : from.symbols) out.symbols.push_back(size_of(texts, symbol));
  for (const StoredField& field : from.fields) out.fields.push_back(field_of(texts, field));
  if (next != out.symbols.size())
    throw StoredFlaw(fmt::format("{} sizes are symbols, of {}", next, out.symbols.size()));
  need_order(out.sources, [](const SourceDecision& source) { return source.spec.name; });
  need_order(out.fields, [](const JoinedField& field) { return field.spec.name; });
  return out;
}

DType dtype_of(std::uint8_t number) {
  return enum_of<DType>(number, static_cast<int>(DType::F64) + 1, "such dtype");
}
bool flag_of(std::uint8_t number) { return enum_of<std::uint8_t>(number, 2, "such flag") == 1; }

}  // namespace lockstep::worker
