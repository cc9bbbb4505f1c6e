#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/frame_agreement.h>

namespace lockstep::worker {
namespace {

std::string text_of(const SourceSpec& spec) {
  if (spec.kind != Kind::Tensor) return std::string(kind_name(spec.kind));
  return fmt::format("tensor of {} with {} dims", dtype_name(spec.dtype), spec.ndim);
}

struct Difference {
  std::string source, promised, given;
};

/// The first source, in byte order, in which the lists differ.
Difference difference(const SourceList& promised, const SourceList& given) {
  const auto& a = promised.sources();
  const auto& b = given.sources();
  for (std::size_t i = 0;; ++i) {
    const bool no_a = i >= a.size(), no_b = i >= b.size();
    if (!no_a && !no_b && a[i] == b[i]) continue;
    if (no_b || (!no_a && a[i].name < b[i].name)) return {a[i].name, text_of(a[i]), "absent"};
    if (no_a || b[i].name < a[i].name) return {b[i].name, "absent", text_of(b[i])};
    return {a[i].name, text_of(a[i]), text_of(b[i])};
  }
}

/// The first field, in byte order, in which the calls differ.
std::optional<Difference> difference(const std::vector<Field>& promised,
                                     const std::vector<Field>& given) {
  const auto said = [](const Field& field) {
    return fmt::format("{} {}", field_join_name(field.spec.join),
                       value_text(field.spec.type, field.value));
  };
  for (std::size_t i = 0; i < promised.size() || i < given.size(); ++i) {
    const Field* a = i < promised.size() ? &promised[i] : nullptr;
    const Field* b = i < given.size() ? &given[i] : nullptr;
    if (a == nullptr || (b != nullptr && b->spec.name < a->spec.name))
      return Difference{b->spec.name, "absent", said(*b)};
    if (b == nullptr || a->spec.name < b->spec.name)
      return Difference{a->spec.name, said(*a), "absent"};
    if (*a != *b) return Difference{a->spec.name, said(*a), said(*b)};
  }
  return std::nullopt;
}

std::optional<Difference> difference(const Observation& promised, const Observation& given) {
  if (promised.list->digest() != given.list->digest())
    return difference(*promised.list, *given.list);
  const auto& sources = given.list->sources();
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (std::size_t k = 0; k < given.of(i).size(); ++k) {
      const std::int64_t a = promised.of(i)[k], b = given.of(i)[k];
      const bool tensor = sources[i].kind == Kind::Tensor;
      std::string name = tensor ? size_text(sources[i].name, k) : sources[i].name;
      if (a != b && sources[i].kind == Kind::Bool)
        return Difference{std::move(name), a ? "true" : "false", b ? "true" : "false"};
      if (a != b) return Difference{std::move(name), std::to_string(a), std::to_string(b)};
      const auto said = [](Mark mark) {
        return mark == Mark::None ? "unmarked" : "marked " + std::string(mark_name(mark));
      };
      if (tensor && promised.mark(i, k) != given.mark(i, k))
        return Difference{std::move(name), said(promised.mark(i, k)), said(given.mark(i, k))};
    }
  return difference(promised.fields, given.fields);
}

/// The first host value of the entry that differs. The vote relied on the branches that these
/// values decide.
std::optional<Difference> difference(const Entry& entry, const Observation& promised,
                                     const Observation& given) {
  const auto changed = entry.changed_host_value(promised, given);
  if (!changed) return std::nullopt;
  const auto said = [&](const Observation& call) {
    return std::to_string(value_of(*changed, call).value_or(0));
  };
  return Difference{changed->text(), said(promised), said(given)};
}

}  // namespace

std::optional<Status> FrameAgreement::broken(const Observation& given) const {
  const Observation* promised = driver().promised(cache_);
  if (promised == nullptr) return std::nullopt;
  auto found = difference(*promised, given);
  for (const Entry& entry : cache_.entries)
    if (!found && !entry.superseded) found = difference(entry, *promised, given);
  if (!found) return std::nullopt;
  return bad_input(
      fmt::format("{} was prefetched with {}: {}, but is called with {}; make the calls "
                  "of a frame in the order of its prefetches, with the same inputs",
                  cache_.name, found->source, found->promised, found->given),
      found->source);
}

}  // namespace lockstep::worker
