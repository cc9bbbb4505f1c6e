#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/audit_report.h>

namespace lockstep::worker {
namespace {

using shapes::Fingerprint;

/// Byte that follows a rank's report in audited calls, and in no other round.
constexpr std::uint8_t kAudited = 0xA1;

struct Line {
  RankSet ranks;
  RankReport said;
  bool audited = false;
  Fingerprint program;
  std::optional<Fingerprint> collectives;
  bool issued = false;
  bool is_new = false;
};

void put(ByteWriter& out, const Fingerprint& fingerprint) {
  out.u64(fingerprint.high);
  out.u64(fingerprint.low);
}

Fingerprint take_fingerprint(ByteReader& in) {
  Fingerprint out;
  out.high = in.u64();
  out.low = in.u64();
  return out;
}

Line read(const RankValue& value) {
  ByteReader in(std::as_bytes(std::span(value.value.data(), value.value.size())));
  Line line;
  line.ranks = value.ranks;
  line.said = read_rank_report(in);
  line.audited = in.u8() == kAudited;
  line.is_new = in.u8() != 0;
  line.program = take_fingerprint(in);
  const bool known = in.u8() != 0;
  line.issued = in.u8() != 0;
  const Fingerprint collectives = take_fingerprint(in);
  if (known) line.collectives = collectives;
  line.audited = line.audited && in.ok();
  return line;
}

/// Ranks that are equal in one aspect, with the evidence of their inputs.
struct Set {
  RankSet ranks;
  Line line;  // of the lowest rank, except that is_new is true only if true on all
  Evidence evidence;
};

/// Groups the lines by one aspect, in order of lowest rank.
template <class Aspect>
std::vector<Set> sets_by(Aspect aspect, const std::vector<Line>& lines,
                         const std::vector<Evidence>& evidence) {
  std::vector<Set> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto of_line = std::find_if(evidence.begin(), evidence.end(),
                                      [&](const Evidence& e) { return e.line == i; });
    const Evidence own = of_line == evidence.end() ? Evidence{} : *of_line;
    const auto same = std::find_if(out.begin(), out.end(), [&](const Set& set) {
      return aspect(set.line) == aspect(lines[i]);
    });
    if (same == out.end()) {
      out.push_back({lines[i].ranks, lines[i], own});
    } else {
      same->ranks.insert(lines[i].ranks);
      same->evidence = merged(same->evidence, own);
      same->line.is_new = same->line.is_new && lines[i].is_new;
    }
  }
  return out;
}

std::string program_text(const Set& set) {
  const std::string& text = set.evidence.program_text;
  const std::string name = set.line.program.text().substr(0, 8);
  return fmt::format("{}{}, {}", name, text.empty() ? "" : " (" + text + ")",
                     set.line.is_new ? "compiled for this call" : "from its cache");
}

std::string collectives_name(const std::optional<Fingerprint>& collectives) {
  if (!collectives) return "collectives not known";
  if (*collectives == Fingerprint{}) return "no collectives";
  return "collectives " + collectives->text().substr(0, 8);
}

/// The i-th line of a text; "(none)" past its end.
std::string line_of(std::string_view text, std::size_t index) {
  for (; index > 0; --index) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "(none)";
    text.remove_prefix(end + 1);
  }
  const std::string_view line = text.substr(0, text.find('\n'));
  return line.empty() ? "(none)" : std::string(line);
}

/// "ranks 0-2: all_reduce; rank 3: (none)", at most four sets of ranks.
template <class Sets, class Text>
std::string by_ranks(const std::vector<Sets>& sets, Text text) {
  constexpr std::size_t kMost = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(sets.size(), kMost); ++i)
    out += fmt::format("{}{}: {}", i == 0 ? "" : "; ", sets[i].ranks.phrase(), text(i));
  if (sets.size() > kMost) out += fmt::format("; and {} more", sets.size() - kMost);
  return out;
}

std::string parting_text(const FirstDifference& parting) {
  return by_ranks(parting.texts, [&](auto i) { return parting.texts[i].value; });
}

/// How the lists of collectives differ; from their texts, if there are any.
std::string collectives_text(const std::vector<Set>& sets,
                             const std::optional<FirstDifference>& parting) {
  if (parting)
    return fmt::format("collective {} is not the same ({})", parting->line + 1,
                       parting_text(*parting));
  return by_ranks(sets, [&](auto i) { return collectives_name(sets[i].line.collectives); });
}

/// A program's text without its first line.
std::string_view body(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

std::string cause_text(const std::vector<Set>& sets, const std::optional<Cause>& cause) {
  if (!cause) {
    const bool observed = std::none_of(sets.begin(), sets.end(),
                                       [](const Set& set) { return set.evidence.cells.empty(); });
    return observed ? "no observed input tells them apart; " : "";
  }
  return fmt::format("{} {} ({}); ", cause->name,
                     cause->separates ? "tells them apart" : "differs between ranks",
                     by_ranks(sets, [&](auto i) { return cause->values[i]; }));
}

/// Whether all, some or no ranks compiled for this call.
std::string compiles_text(const std::vector<Set>& sets) {
  const auto is_new = [](const Set& set) { return set.line.is_new; };
  if (std::all_of(sets.begin(), sets.end(), is_new)) return "all compiled for this call";
  if (std::none_of(sets.begin(), sets.end(), is_new)) return "all took them from their caches";
  return "some compiled while others found an entry in their caches";
}

std::optional<Cause> cause_between(const std::vector<Set>& sets) {
  std::vector<Evidence> evidence;
  for (const Set& set : sets) evidence.push_back(set.evidence);
  return find_cause(evidence);
}

std::vector<RankValue> table(const std::vector<Set>& sets, const std::optional<Cause>& cause) {
  std::vector<RankValue> out;
  for (std::size_t i = 0; i < sets.size(); ++i)
    out.push_back(
        {sets[i].ranks,
         fmt::format("{}, {}{}", program_text(sets[i]), collectives_name(sets[i].line.collectives),
                     cause ? fmt::format(", {} = {}", cause->name, cause->values[i]) : "")});
  return out;
}

bool may_have_collectives(const Line& line) {
  return !line.collectives || line.issued || *line.collectives != Fingerprint{};
}

std::string content_of(std::string_view kind, const std::vector<Line>& lines,
                       const std::string& source) {
  std::string out = fmt::format("{}|{}|{}", kind, lines.front().said.frame, source);
  for (const Line& line : lines)
    out += fmt::format("|{}{}", line.ranks.text(), line.is_new ? "+" : "");
  return out;
}

/// Verdict if some ranks have nothing to run (`troubled`), or if the ranks are about to run
/// different frames or calls.
AuditVerdict judge_places(const std::vector<RankValue>& rank_table, const std::vector<Line>& lines,
                          bool troubled) {
  AuditVerdict out{diagnose(rank_table), false, {}};
  const auto& first = lines.front().collectives;
  for (const Line& line : lines) {
    // A rank with a local error issues no collective, so collectives of the others would hang.
    if (troubled) out.stops |= !line.said.local_error && may_have_collectives(line);
    if (!troubled) out.stops |= !line.collectives || line.issued || line.collectives != first;
  }
  if (!out.stops)
    out.status.message +=
        "; the ranks have no collectives that could wait for each other, so the "
        "audited job goes on";
  out.content = content_of(troubled ? "trouble" : "frames", lines, out.status.source);
  return out;
}

AuditVerdict judge_collectives(const std::vector<Line>& lines,
                               const std::vector<Evidence>& evidence,
                               const std::optional<FirstDifference>& parting) {
  const auto sets = sets_by([](const Line& l) { return l.collectives; }, lines, evidence);
  const auto cause = cause_between(sets);
  const std::string where = collectives_text(sets, parting);
  const std::string majority = majority_text(table(sets, cause));
  const std::string text =
      lines.front().issued
          ? fmt::format(
                "{}: since the call before it the ranks have issued different collectives: "
                "{}; {}results since then may be wrong",
                lines.front().said.key, where, majority)
          : fmt::format(
                "{}: the programs of the ranks would issue different collectives, so all "
                "ranks stop before the first: {}; {}{}{}",
                lines.front().said.key, where, majority, cause_text(sets, cause),
                compiles_text(sets));
  return {
      Status{Code::GraphDivergence, text, cause ? cause->name : "", table(sets, cause)}, true, {}};
}

AuditVerdict judge_programs(const std::vector<Line>& lines, const std::vector<Evidence>& evidence,
                            const std::optional<FirstDifference>& parting) {
  const auto sets = sets_by([](const Line& l) { return l.program; }, lines, evidence);
  const auto cause = cause_between(sets);
  const bool unknown =
      std::any_of(lines.begin(), lines.end(), [](const Line& l) { return !l.collectives; });
  const std::string source = cause ? cause->name : "";
  return {
      Status{Code::GraphDivergence,
             fmt::format(
                 "{}: the ranks run different programs{}; {}{}{}; {}", lines.front().said.key,
                 parting ? fmt::format(", from line {} on ({})", parting->line + 1,
                                       parting_text(*parting))
                         : "",
                 majority_text(table(sets, cause)), cause_text(sets, cause), compiles_text(sets),
                 unknown ? "whether their collectives match is not known on every rank, "
                           "so the call goes on and may hang"
                         : "their collectives are the same, so the call goes on"),
             source, table(sets, cause)},
      false, content_of("programs", lines, source)};
}

}  // namespace

std::string audit_line(const RoundKey& key, const AuditedCall& own) {
  RankStatus rank_status;
  rank_status.local_error = own.local_error;
  ByteWriter out;
  out.u8(kAudited);
  out.u8(own.is_new ? 1 : 0);
  put(out, own.program);
  out.u8(own.collectives ? 1 : 0);
  out.u8(own.issued ? 1 : 0);
  put(out, own.collectives.value_or(Fingerprint{}));
  const auto view = out.view();
  return rank_report(key, rank_status) +
         std::string(reinterpret_cast<const char*>(view.data()), view.size());
}

bool all_audited(const std::vector<RankValue>& rank_table) {
  return std::all_of(rank_table.begin(), rank_table.end(),
                     [](const RankValue& v) { return read(v).audited; });
}

namespace {

/// A rank table of audited calls, decoded.
struct Reading {
  std::vector<Line> lines;
  bool troubled = false, elsewhere = false;
  bool collectives_differ = false, programs_differ = false;
};

Reading read(const std::vector<RankValue>& rank_table) {
  Reading out;
  for (const RankValue& value : rank_table) out.lines.push_back(read(value));
  const std::optional<Fingerprint>* known = nullptr;
  for (const Line& line : out.lines) {
    out.troubled |= line.said.local_error.has_value();
    out.elsewhere |= line.said.round != out.lines.front().said.round;
    out.programs_differ |= line.program != out.lines.front().program;
    if (!line.collectives) continue;
    if (known == nullptr) known = &line.collectives;
    out.collectives_differ |= *known != line.collectives;
  }
  return out;
}

}  // namespace

void describe(Evidence& evidence, const AuditedCall& own) {
  evidence.program_text = own.program_text.substr(0, own.program_text.find('\n'));
  evidence.program_lines = line_digests(body(own.program_text));
  evidence.collectives_lines = line_digests(own.collectives_text);
}

std::optional<FirstDifference> find_parting(const std::vector<RankValue>& rank_table,
                                            const std::vector<Evidence>& evidence) {
  const Reading said = read(rank_table);
  if (said.troubled || said.elsewhere) return std::nullopt;
  FirstDifference out{said.collectives_differ, 0, {}};
  std::size_t longest = 0;
  const auto digests = [&](const Evidence& of) -> const std::vector<std::uint32_t>& {
    return out.of_collectives ? of.collectives_lines : of.program_lines;
  };
  for (const Evidence& of : evidence) longest = std::max(longest, digests(of).size());
  for (; out.line < longest; ++out.line) {
    std::set<std::optional<std::uint32_t>> distinct;
    for (const Evidence& of : evidence)
      distinct.insert(out.line < digests(of).size() ? std::optional(digests(of)[out.line])
                                                    : std::nullopt);
    if (distinct.size() > 1) return out;
  }
  return std::nullopt;
}

std::string parting_line(const FirstDifference& parting, const AuditedCall& own) {
  std::string line =
      line_of(parting.of_collectives ? own.collectives_text : body(own.program_text), parting.line);
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

std::optional<AuditVerdict> judge(const std::vector<RankValue>& rank_table,
                                  const std::vector<Evidence>& evidence,
                                  const std::optional<FirstDifference>& parting) {
  const Reading said = read(rank_table);
  if (said.troubled || said.elsewhere) return judge_places(rank_table, said.lines, said.troubled);
  if (said.collectives_differ) return judge_collectives(said.lines, evidence, parting);
  if (!said.programs_differ) return std::nullopt;
  return judge_programs(said.lines, evidence, parting);
}

}  // namespace lockstep::worker
