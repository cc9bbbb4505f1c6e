#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/diagnosis.h>

namespace lockstep::worker {
namespace {

/// The bytes of a line of the rank table, as a string.
std::string sealed(ByteWriter out) {
  const auto view = out.view();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

ByteReader opened(const std::string& line) {
  return ByteReader(std::as_bytes(std::span(line.data(), line.size())));
}

void put(ByteWriter& out, const std::optional<Status>& failure) {
  out.u8(failure ? 1 : 0);
  if (!failure) return;
  out.u8(static_cast<std::uint8_t>(failure->code));
  out.text(failure->message);
  out.text(failure->source);
}

std::optional<Status> take_failure(ByteReader& in) {
  if (in.u8() == 0) return std::nullopt;
  const std::uint8_t code = in.u8();
  Status status;
  if (code <= static_cast<std::uint8_t>(Code::Internal)) status.code = static_cast<Code>(code);
  status.message = in.text();
  status.source = in.text();
  return status;
}

struct Line : RankReport {
  RankSet ranks;
};

Line read(const RankValue& value) {
  ByteReader in = opened(value.value);
  return {read_rank_report(in), value.ranks};
}

/// The table of one aspect of the lines: ranks with equal values share a row.
template <class Aspect>
std::vector<RankValue> table(const std::vector<Line>& lines, Aspect aspect) {
  std::vector<RankValue> out;
  for (const Line& line : lines) {
    const std::string value = aspect(line);
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const RankValue& v) { return v.value == value; });
    if (same != out.end())
      same->ranks.insert(line.ranks);
    else
      out.push_back({line.ranks, value});
  }
  return out;
}

}  // namespace

std::string rank_report(const RoundKey& key, const RankStatus& rank_status, std::string_view remark,
                        std::string_view brought) {
  ByteWriter out;
  // The frame; of words, after zero bytes, the user's line and what has to be equal.
  out.text(key.frame + (key.kind != RoundKey::Kind::Words
                            ? std::string()
                            : '\0' + key.where + '\0' + std::string(brought)));
  // The frame's options and, after a zero byte, the frame that was made before it, if any.
  out.text(std::string(key.consistency ? consistency_name(*key.consistency) : "as the job's") +
           (key.options.empty() ? "" : ", ") + key.options +
           (key.after.empty() ? "" : '\0' + key.after));
  // The round and, after a zero byte, the number of the call, if it differs from that of the round.
  out.text(key.round_text() + std::string(remark) +
           (key.call == key.round ? "" : '\0' + std::to_string(key.call)));
  out.u64(rank_status.pending);
  put(out, rank_status.local_error);
  out.u32(rank_status.local_error_at);
  return sealed(std::move(out));
}

RankReport read_rank_report(ByteReader& line) {
  RankReport said;
  said.frame = line.text();
  std::string where;
  if (const std::size_t end = said.frame.find('\0'); end != std::string::npos) {
    const std::size_t next = said.frame.find('\0', end + 1);
    said.words = true;
    where = said.frame.substr(end + 1, next - end - 1);
    said.brought = next == std::string::npos ? std::string() : said.frame.substr(next + 1);
    said.frame.resize(end);
  }
  said.options = line.text();
  if (const std::size_t end = said.options.find('\0'); end != std::string::npos) {
    said.after = said.options.substr(end + 1);
    said.options.resize(end);
  }
  said.key = line.text();
  const std::size_t call = said.key.find('\0');
  said.round = said.key.substr(0, call);
  said.key = RoundKey::text_of(said.round, call == std::string::npos
                                               ? std::nullopt
                                               : std::optional(said.key.substr(call + 1)));
  said.pending = line.u64();
  said.local_error = take_failure(line);
  said.local_error_at = line.u32();
  if (!where.empty()) said.key += " at " + where;
  if (!line.ok()) said.local_error = internal_error("sent a report that cannot be read");
  return said;
}

/// Advice for a loop that has more iterations on some ranks.
constexpr std::string_view kUneven =
    "; where ranks have different numbers of batches, loop while job.more(have_batch), or give "
    "what "
    "each rank does alone Consistency::Local";

Status diagnose(const std::vector<RankValue>& rank_table) {
  std::vector<Line> lines;
  for (const RankValue& value : rank_table) lines.push_back(read(value));
  const auto troubled = [](const Line& line) { return line.local_error.has_value(); };
  const auto first =
      std::min_element(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
        return troubled(a) && (!troubled(b) || a.local_error_at < b.local_error_at);
      });
  if (first != lines.end() && troubled(*first)) {
    const auto well = std::find_if_not(lines.begin(), lines.end(), troubled);
    return {first->local_error->code,
            fmt::format("{} failed before {}: {}", first->ranks.phrase(),
                        (well == lines.end() ? *first : *well).key, first->local_error->message),
            first->local_error->source, table(lines, [](const Line& l) {
              return l.local_error ? l.local_error->message : l.key;
            })};
  }
  auto frames = table(lines, [](const Line& l) { return l.frame; });
  const bool calls = std::all_of(lines.begin(), lines.end(), [](const Line& line) {
    return !line.frame.empty() && !line.words;
  });
  if (calls && frames.size() > 1)
    return {Code::FrameMismatch,
            "the ranks entered different frames at the same call; make every rank call the same "
            "frames in the same order" +
                std::string(kUneven),
            {},
            std::move(frames)};
  auto modes = table(lines, [](const Line& l) { return l.options; });
  const bool all_words = std::ranges::all_of(lines, &Line::words);
  if (all_words && frames.size() == 1 && modes.size() > 1)
    return {Code::FrameMismatch,
            fmt::format("the ranks agree on {} by different ops; give the same ops, in the same "
                        "order, on every rank",
                        lines.front().frame),
            lines.front().frame, table(lines, [](const Line& l) {
              return l.options.substr(l.options.find(", ") + 2) + " in " + l.key;
            })};
  if (std::ranges::none_of(lines, &Line::words) && modes.size() > 1)
    return {Code::FrameMismatch,
            fmt::format("the ranks made frame {} with different options; give it the same "
                        "ones on every rank",
                        lines.front().frame),
            "consistency", std::move(modes)};
  auto places = table(lines, [](const Line& l) {
    return l.after.empty() ? "made before all others" : "made after frame " + l.after;
  });
  if (calls && places.size() > 1)
    return {Code::FrameMismatch,
            fmt::format("the ranks made their frames in different orders, as frame {} shows; make "
                        "the same frames in the same order on every rank",
                        lines.front().frame),
            {},
            std::move(places)};
  const bool apart = std::ranges::any_of(
      lines, [&](const Line& line) { return line.round != lines.front().round; });
  auto keys = table(lines, [](const Line& l) { return l.key; });
  if (apart && keys.size() == 1) keys = table(lines, [](const Line& l) { return l.round; });
  const bool one_has_no_call =
      std::ranges::any_of(lines, [](const Line& line) { return line.frame.empty(); });
  if (apart)
    return {Code::FrameMismatch,
            "the ranks met in different rounds; make every rank make the same calls in the same "
            "order" +
                std::string(one_has_no_call ? kUneven : ""),
            {},
            std::move(keys)};
  auto pending = table(lines, [](const Line& l) { return fmt::format("{:016x}", l.pending); });
  if (pending.size() > 1)
    return {Code::GraphDivergence,
            fmt::format("the ranks carry different pending asserts or agreed values into {}; agree "
                        "on a value on every rank before a branch uses it",
                        lines.front().key),
            {},
            std::move(pending)};
  auto brought = table(lines, [](const Line& l) { return l.brought; });
  if (all_words && brought.size() > 1)
    return {Code::ConstantMismatch,
            fmt::format("the ranks bring different words to {}, where they have to be equal",
                        lines.front().key),
            lines.front().frame, std::move(brought)};
  return internal_error(
      "a vote did not come out clean, but no rank knows why; this is a bug of lockstep, please "
      "report it with the record");
}

std::string majority_text(const std::vector<RankValue>& rank_table) {
  std::int64_t all = 0;
  for (const RankValue& value : rank_table) all += value.ranks.size();
  for (const RankValue& value : rank_table)
    if (2 * value.ranks.size() > all)
      return fmt::format("{} {} the majority; ", value.ranks.phrase(),
                         value.ranks.size() == 1 ? "is" : "are");
  return "no majority; ";
}

std::string report_line(const std::optional<Status>& failure) {
  ByteWriter out;
  put(out, failure);
  return sealed(std::move(out));
}

Status joint_failure(const std::vector<RankValue>& rank_table, const std::string& frame,
                     const std::string& well) {
  Status joint = internal_error(frame + ": a step failed, but no rank says why");
  bool found = false;
  for (const RankValue& value : rank_table) {
    ByteReader in = opened(value.value);
    const std::optional<Status> failure = take_failure(in);
    joint.groups.push_back({value.ranks, failure ? failure->message : well});
    if (!failure || found) continue;
    found = true;
    joint.code = failure->code;
    joint.source = failure->source;
    joint.message =
        fmt::format("{}: failed on {}: {}", frame, value.ranks.phrase(), failure->message);
  }
  return joint;
}

}  // namespace lockstep::worker
