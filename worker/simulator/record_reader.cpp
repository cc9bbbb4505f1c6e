#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/coordinator/profile.h>
#include <lockstep/worker/simulator/record_fields.h>
#include <lockstep/worker/simulator/record_reader.h>
#include <lockstep/worker/simulator/regular_file.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::worker::simulator {
namespace {

Status refuse(std::string_view where, std::string_view what) {
  return {Code::BadInput, fmt::format("{}: {}.", where, what), {}, {}};
}

/// Takes one rank's file in, line by line.
class RankReader {
 public:
  explicit RankReader(std::string path) { out_.path = std::move(path); }

  Result<RankRecord> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == text.npos) {
        out_.truncated = true;
        break;
      }
      ++line_;
      const std::string name = fmt::format("{}:{}", out_.path, line_);
      const auto json = parse_json(text.substr(0, end), name);
      if (!json) return json.error();
      RecordFields fields(*json, name, line_ == 1 ? kMaxWorldSize : out_.header.world_size);
      take(fields);
      if (fields.error()) return *fields.error();
      text.remove_prefix(end + 1);
    }
    if (line_ == 0) return refuse(out_.path, "the record has no whole line");
    out_.lines = line_;
    return std::move(out_);
  }

 private:
  void take(RecordFields& in) {
    if (line_ == 1) return take_header(in);
    const std::string event = in.text("event");
    if (event == "sources") return take_sources(in);
    if (event == "group") {
      out_.groups[in.text("name")] = in.ranks("ranks");
      return;
    }
    if (event == "state") return take_state(in);
    if (event == "call") return take_call(in);
    if (event == "round") {
      if (in.has("error")) out_.failed_round = {in.round_key("key"), in.status("error")};
      return;
    }
    if (out_.calls.empty() || out_.calls.back().outcome)
      return in.fail("event", fmt::format("{} stands outside of a call", in_quotes(event)));
    if (event == "end") return take_end(in);
    RecordedEvent out;
    out.line = line_;
    out.took = took(in);
    if (event == "action" || event == "explain") {
      out.kind = event == "action" ? RecordedEvent::Kind::Action : RecordedEvent::Kind::Explain;
      out.text = in.text("text");
    } else if (event == "trace") {
      out.kind = RecordedEvent::Kind::Trace;
      out.trace = take_trace(in);
    } else if (event == "compile") {
      out.kind = RecordedEvent::Kind::Compile;
      if (in.has("failure")) out.failure = in.status("failure");
    } else {
      return in.fail("event", fmt::format("{} is no event of a record", in_quotes(event)));
    }
    out_.calls.back().events.push_back(std::move(out));
  }

  static Duration took(RecordFields& in) {
    return Duration(in.has("ns") ? in.integer("ns", 0, INT64_MAX) : 0);
  }

  void take_header(RecordFields& in) {
    const std::string format = in.text("format");
    if (!in.error() && format != kRecordFormat)
      in.fail("format", fmt::format("{} is not a format this program reads, which is \"{}\"",
                                    in_quotes(format), kRecordFormat));
    RecordHeader& header = out_.header;
    header.world_size = static_cast<int>(in.integer("world_size", 1, kMaxWorldSize));
    header.rank = Rank{static_cast<std::int32_t>(in.integer("rank", 0, header.world_size - 1))};
    header.config = in.config("config");
    header.build_id = in.text("build");
  }

  void take_sources(RecordFields& in) {
    std::vector<SourceSpec> specs = in.sources("sources");
    for (std::size_t i = 1; i < specs.size(); ++i)
      if (!(specs[i - 1].name < specs[i].name)) in.fail("sources", "the names are not in order");
    const auto digest = in.fingerprint("digest");
    if (in.error()) return;
    auto list = std::make_shared<const SourceList>(std::move(specs));
    if (list->digest() != digest) return in.fail("digest", "this is not the digest of the sources");
    lists_[digest] = std::move(list);
  }

  void take_state(RecordFields& in) {
    const std::string frame = in.text("frame");
    const std::string bytes = in.text("stored");
    const auto profile = coordinator::decode_profile(std::as_bytes(std::span(bytes)));
    if (!profile) return in.fail("stored", "this is no state that a frame can start from");
    FrameState& state = stored_[frame];
    for (const auto& [name, source] : *profile) state[name] = source.seen;
  }

  void take_call(RecordFields& in) {
    if (!out_.calls.empty() && !out_.calls.back().outcome)
      return in.fail("event", "a call starts before the one before it has ended");
    RecordedCall call;
    call.line = line_;
    call.pause = took(in);
    call.key = in.round_key("key");
    const auto list = lists_.find(in.fingerprint("sources"));
    if (in.error()) return;
    if (list == lists_.end()) return in.fail("sources", "no list of sources has this digest");
    call.observation.list = list->second;
    call.observation.values = in.integers("values");
    const std::size_t count = list->second->offsets().back();
    if (in.has("strides")) call.observation.strides = in.integers("strides");
    if (in.has("marks")) call.observation.marks = in.marks("marks");
    if (call.observation.values.size() != count)
      in.fail("values",
              fmt::format("{} values for {} places", call.observation.values.size(), count));
    if (!call.observation.strides.empty() && call.observation.strides.size() != count)
      in.fail("strides",
              fmt::format("{} strides for {} places", call.observation.strides.size(), count));
    if (!call.observation.marks.empty() && call.observation.marks.size() != count)
      in.fail("marks", fmt::format("{} marks for {} places", call.observation.marks.size(), count));
    if (in.has("scalars")) call.observation.scalars = in.integers("scalars");
    if (!call.observation.scalars.empty() &&
        call.observation.scalars.size() != list->second->scalars())
      in.fail("scalars", fmt::format("{} scalars for {} places", call.observation.scalars.size(),
                                     list->second->scalars()));
    if (in.has("seen")) call.seen = in.fingerprint("seen");
    if (in.has("pending")) call.standing.pending = in.hexadecimal("pending");
    if (in.has("trouble")) call.standing.trouble = in.status("trouble");
    if (auto state = stored_.extract(call.key.frame); !state.empty())
      call.stored = std::move(state.mapped());
    out_.calls.push_back(std::move(call));
  }

  static TraceReport take_trace(RecordFields& in) {
    TraceReport out;
    out.graph = in.fingerprint("graph");
    out.guards = in.guards("guards");
    if (in.has("host_values")) out.host_values = in.host_values("host_values");
    if (in.has("group_guards")) out.group_guards = in.group_guards("group_guards");
    if (in.has("collectives")) out.collectives = in.fingerprint("collectives");
    if (in.has("skeleton")) out.skeleton = in.fingerprint("skeleton");
    if (in.has("prefixes")) out.prefixes = in.fingerprints("prefixes");
    if (in.has("failure")) out.failure = in.status("failure");
    return out;
  }

  void take_end(RecordFields& in) {
    CallOutcome outcome;
    outcome.kind = in.outcome("outcome");
    if (in.has("entry")) outcome.entry = static_cast<int>(in.integer("entry", 0, INT32_MAX));
    if (in.has("error")) outcome.error = in.status("error");
    out_.calls.back().outcome = std::move(outcome);
    out_.calls.back().closing = took(in);
  }

  RankRecord out_;
  std::map<shapes::Fingerprint, std::shared_ptr<const SourceList>> lists_;
  std::map<std::string, FrameState> stored_;  // of frames that have not been called
  int line_ = 0;
};

Result<std::vector<std::string>> record_files(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) out.push_back(entry.path().string());
  }
  if (error) return refuse(directory, fmt::format("cannot be read ({})", error.message()));
  if (out.empty())
    return refuse(directory, "this directory holds no record (no rank-*.jsonl file)");
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Result<std::vector<RankRecord>> read_record(const std::string& directory) {
  const auto files = record_files(directory);
  if (!files) return files.error();
  std::vector<RankRecord> out;
  for (const std::string& file : *files) {
    const auto text = read_file(file);
    if (!text) return text.error();
    auto rank = RankReader(file).read(*text);
    if (!rank) return rank.error();
    out.push_back(*std::move(rank));
  }
  std::sort(out.begin(), out.end(),
            [](const RankRecord& a, const RankRecord& b) { return a.header.rank < b.header.rank; });
  const RecordHeader& first = out.front().header;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const RecordHeader& header = out[i].header;
    if (header.world_size != first.world_size || !(header.config == first.config) ||
        header.build_id != first.build_id)
      return refuse(out[i].path + ":1", "world size, configuration or build differ from those in " +
                                            out.front().path + ", so this is not one job");
    if (header.rank.value != static_cast<std::int32_t>(i))
      return refuse(directory, fmt::format("the record of rank {} is missing or there twice", i));
  }
  if (out.size() != static_cast<std::size_t>(first.world_size))
    return refuse(directory, fmt::format("the record of rank {} is missing, of {} ranks",
                                         out.size(), first.world_size));
  return out;
}

}  // namespace lockstep::worker::simulator
