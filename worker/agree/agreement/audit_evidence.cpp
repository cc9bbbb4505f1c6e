#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/audit_evidence.h>

namespace lockstep::worker {
namespace {

/// Limits of what is sent, so that a report stays readable and a payload small.
constexpr std::size_t kLongestText = 2000, kMostLines = 16384;

using Lines = std::map<std::uint32_t, Evidence>;

std::pair<std::string_view, std::int32_t> place(const EvidenceCell& cell) {
  return {cell.source, cell.dim};
}

std::string type_text(const SourceSpec& spec) {
  if (spec.kind != Kind::Tensor) return std::string(kind_name(spec.kind));
  return fmt::format("{} tensor of {} dim{}", dtype_name(spec.dtype), spec.ndim,
                     spec.ndim == 1 ? "" : "s");
}

EvidenceCell merged(const EvidenceCell& lower, const EvidenceCell& higher) {
  EvidenceCell out = lower;
  if (lower.type != higher.type) out.type.clear();
  out.least = std::min(lower.least, higher.least);
  out.greatest = std::max(lower.greatest, higher.greatest);
  out.everywhere = lower.everywhere && higher.everywhere;
  return out;
}

void put(ByteWriter& out, const std::vector<std::uint32_t>& digests) {
  out.u32(static_cast<std::uint32_t>(digests.size()));
  for (const std::uint32_t digest : digests) out.u32(digest);
}

std::vector<std::uint32_t> take_digests(ByteReader& in) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t n = in.count(4); n > 0 && in.ok(); --n) out.push_back(in.u32());
  return out;
}

void put(ByteWriter& out, const Evidence& evidence) {
  out.u32(evidence.line);
  out.text(std::string_view(evidence.program_text).substr(0, kLongestText));
  put(out, evidence.program_lines);
  put(out, evidence.collectives_lines);
  out.u32(static_cast<std::uint32_t>(evidence.cells.size()));
  for (const EvidenceCell& cell : evidence.cells) {
    out.text(cell.source);
    out.u32(static_cast<std::uint32_t>(cell.dim));
    out.text(cell.type);
    out.i64(cell.least);
    out.i64(cell.greatest);
    out.u8(cell.everywhere ? 1 : 0);
  }
}

Evidence take(ByteReader& in) {
  Evidence out;
  out.line = in.u32();
  out.program_text = in.text();
  out.program_lines = take_digests(in);
  out.collectives_lines = take_digests(in);
  for (std::uint32_t n = in.count(29); n > 0 && in.ok(); --n) {
    EvidenceCell cell;
    cell.source = in.text();
    cell.dim = static_cast<std::int32_t>(in.u32());
    cell.type = in.text();
    cell.least = in.i64();
    cell.greatest = in.i64();
    cell.everywhere = in.u8() != 0;
    out.cells.push_back(std::move(cell));
  }
  return out;
}

Bytes encode(const Lines& lines) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(lines.size()));
  for (const auto& [line, evidence] : lines) put(out, evidence);
  return std::move(out).take();
}

Lines decode(std::span<const std::byte> payload) {
  ByteReader in(payload);
  Lines lines;
  for (std::uint32_t n = in.count(16); n > 0 && in.ok(); --n) {
    Evidence evidence = take(in);
    const std::uint32_t line = evidence.line;
    lines.emplace(line, std::move(evidence));
  }
  return in.ok() && in.at_end() ? lines : Lines{};
}

const EvidenceCell* find(const Evidence& set, const EvidenceCell& like) {
  const auto at = std::lower_bound(
      set.cells.begin(), set.cells.end(), like,
      [](const EvidenceCell& a, const EvidenceCell& b) { return place(a) < place(b); });
  return at != set.cells.end() && place(*at) == place(like) ? &*at : nullptr;
}

/// True if the ranks of `a` and those of `b` have nothing in common: neither a value nor absence.
bool apart(const EvidenceCell* a, const EvidenceCell* b) {
  if (a == nullptr || b == nullptr)
    return (a == nullptr) != (b == nullptr) && (a ? a : b)->everywhere;
  if (!a->everywhere || !b->everywhere) return false;
  if (a->type != b->type) return !a->type.empty() && !b->type.empty();
  return a->greatest < b->least || b->greatest < a->least;
}

/// True if no two cells have anything in common.
bool all_apart(std::vector<const EvidenceCell*> cells) {
  if (cells.size() < 2) return false;
  // In this order, if any two cells have something in common, two neighbouring cells have, too.
  std::sort(cells.begin(), cells.end(), [](const EvidenceCell* a, const EvidenceCell* b) {
    if (a == nullptr || b == nullptr) return a == nullptr && b != nullptr;
    return std::tie(a->type, a->least) < std::tie(b->type, b->least);
  });
  for (std::size_t i = 1; i < cells.size(); ++i)
    if (!apart(cells[i - 1], cells[i])) return false;
  return true;
}

bool same_everywhere(const EvidenceCell* a, const EvidenceCell* b) {
  return a != nullptr && b != nullptr && a->everywhere && b->everywhere &&
         !(a->dim < 0 && a->type.empty()) && a->type == b->type && a->least == a->greatest &&
         b->least == b->greatest && a->least == b->least;
}

Cause cause_of(const EvidenceCell& cell, const std::vector<const EvidenceCell*>& in_sets,
               bool separates) {
  Cause out{cell.name(), {}, separates};
  for (const EvidenceCell* in_set : in_sets)
    out.values.push_back(in_set == nullptr ? "absent" : in_set->value());
  return out;
}

}  // namespace

std::string EvidenceCell::name() const {
  return dim < 0 ? source : size_text(source, static_cast<std::size_t>(dim));
}

std::string EvidenceCell::value() const {
  if (dim < 0 && type.empty()) return "of several kinds";
  std::string out = type;
  if (dim >= 0 || type == kind_name(Kind::Int))
    out = least == greatest ? fmt::format("{}", least) : fmt::format("{} to {}", least, greatest);
  else if (type == kind_name(Kind::Bool))
    out = least != greatest ? "true and false" : (least == 1 ? "true" : "false");
  return everywhere ? out : out + " or absent";
}

Evidence evidence_of(std::uint32_t line, const Observation& observation) {
  Evidence out;
  out.line = line;
  if (!observation.list) return out;
  const auto& sources = observation.list->sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto values = observation.of(i);
    const bool tensor = sources[i].kind == Kind::Tensor;
    const std::int64_t own = tensor || values.empty() ? 0 : values[0];
    out.cells.push_back({sources[i].name, -1, type_text(sources[i]), own, own, true});
    for (std::size_t d = 0; tensor && d < values.size(); ++d)
      out.cells.push_back(
          {sources[i].name, static_cast<std::int32_t>(d), {}, values[d], values[d], true});
  }
  return out;
}

std::vector<std::uint32_t> line_digests(std::string_view text) {
  std::vector<std::uint32_t> out;
  while (!text.empty() && out.size() < kMostLines) {
    const std::string_view line = text.substr(0, text.find('\n'));
    out.push_back(
        static_cast<std::uint32_t>(shapes::fingerprint(line.substr(0, line.find('\t'))).low));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return out;
}

Evidence merged(const Evidence& lower, const Evidence& higher) {
  Evidence out;
  out.line = lower.line;
  out.program_text = lower.program_text;
  out.program_lines = lower.program_lines;
  out.collectives_lines = lower.collectives_lines;
  auto a = lower.cells.begin();
  auto b = higher.cells.begin();
  while (a != lower.cells.end() || b != higher.cells.end()) {
    const bool only_a =
        b == higher.cells.end() || (a != lower.cells.end() && place(*a) < place(*b));
    const bool only_b = !only_a && (a == lower.cells.end() || place(*b) < place(*a));
    if (only_a || only_b) {
      out.cells.push_back(only_a ? *a++ : *b++);
      out.cells.back().everywhere = false;
    } else {
      out.cells.push_back(merged(*a++, *b++));
    }
  }
  return out;
}

Bytes evidence_payload(const Evidence& own) {
  Lines lines;
  lines.emplace(own.line, own);
  return encode(lines);
}

Bytes join_evidence(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  Lines lines = decode(lower);
  for (auto& [line, evidence] : decode(higher)) {
    const auto known = lines.find(line);
    if (known == lines.end())
      lines.emplace(line, evidence);
    else
      known->second = merged(known->second, evidence);
  }
  return encode(lines);
}

std::vector<Evidence> read_evidence(std::span<const std::byte> payload) {
  std::vector<Evidence> out;
  for (auto& [line, evidence] : decode(payload)) out.push_back(evidence);
  return out;
}

std::optional<Cause> find_cause(const std::vector<Evidence>& sets) {
  if (sets.empty()) return std::nullopt;
  Evidence all = sets[0];
  for (const Evidence& set : sets) all = merged(all, set);
  std::optional<Cause> first_difference;
  for (const EvidenceCell& cell : all.cells) {
    std::vector<const EvidenceCell*> in_sets;
    for (const Evidence& set : sets) in_sets.push_back(find(set, cell));
    if (all_apart(in_sets)) return cause_of(cell, in_sets, true);
    const bool same = std::all_of(in_sets.begin(), in_sets.end(), [&](const EvidenceCell* in_set) {
      return same_everywhere(in_sets[0], in_set);
    });
    if (!same && !first_difference) first_difference = cause_of(cell, in_sets, false);
  }
  return first_difference;
}

}  // namespace lockstep::worker
