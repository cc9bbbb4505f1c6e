#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/coordinator/store/profile.h>
#include <lockstep/worker/files/saved/start_entries.h>
#include <lockstep/worker/simulator/input/record_fields.h>
#include <lockstep/worker/simulator/input/record_reader.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {
namespace {

Status refuse(std::string_view where, std::string_view what) {
  return bad_input(fmt::format("{}: {}.", where, what));
}

/// Reads one rank's file, line by line.
class RankReader {
 public:
  /// `known`: the source lists of all ranks, each held once.
  RankReader(std::string path, SourceLists& known, const CallVisitor& visit)
      : known_(known), visit_(visit) {
    out_.path = std::move(path);
  }

  Result<RankRecord> read() {
    const auto file = RegularFile::open(out_.path);
    if (!file) return file.error();
    LineReader lines(*file);
    for (;;) {
      const auto line = lines.next();
      if (!line) return line.error();
      out_.truncated = *line && !(*line)->whole;
      if (!*line || out_.truncated) break;
      if (const auto taken = take(**line); !taken) return taken.error();
    }
    if (out_.lines == 0) return refuse(out_.path, "the record has no whole line");
    close_call();
    out_.calls.finish(std::move(lists_), out_.agreements);
    return std::move(out_);
  }

 private:
  Result<void> take(const LineReader::Line& line) {
    const std::string name = fmt::format("{}:{}", out_.path, ++out_.lines);
    const auto json = parse_json_line(line.text, name);
    if (!json) return json.error();
    RecordFields in(*json, name, out_.lines == 1 ? kMaxWorldSize : out_.header.world_size);
    if (out_.lines == 1)
      take_header(in);
    else
      take(in, in.text("event"), line.offset);
    if (in.error()) return *in.error();
    if (out_.last_call) (stretch_ += line.text) += '\n';
    return {};
  }

  void take(RecordFields& in, const std::string& event, std::uint64_t offset) {
    if (event == "sources") return take_sources(in);
    if (event == "group") {
      out_.groups[in.text("name")] = in.ranks("ranks");
      return;
    }
    if (event == "agreement") return take_agreement(in);
    if (event == "state") return take_state(in);
    if (event == "entries") return take_entries(in);
    if (event == "call") return take_call(in, offset);
    if (event == "round") {
      if (in.has("error")) out_.failed_round = {in.round_key("key"), in.status("error")};
      return;
    }
    if (!out_.ends_within_a_call())
      return in.fail("event", fmt::format("{} stands outside of a call", in_quotes(event)));
    read_event_line(in, event, out_.lines, *out_.last_call);
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
    header.columns = in.has("columns") ? in.integer("columns", 0, UINT32_MAX) : 2;
    if (in.has("program")) header.program = in.program("program");
    out_.calls = CallIndex(out_.path, header.world_size);
  }

  void take_sources(RecordFields& in) {
    std::vector<SourceSpec> specs = in.sources("sources");
    for (std::size_t i = 1; i < specs.size(); ++i)
      if (!(specs[i - 1].name < specs[i].name)) in.fail("sources", "the names are not in order");
    const auto digest = in.fingerprint("digest");
    if (in.error()) return;
    auto list = std::make_shared<const SourceList>(std::move(specs));
    if (list->digest() != digest) return in.fail("digest", "this is not the digest of the sources");
    lists_[digest] = known_.try_emplace(digest, std::move(list)).first->second;
  }

  void take_agreement(RecordFields& in) {
    const auto number = static_cast<int>(in.integer("number", 1, INT32_MAX));
    RecordedAgreement made{.name = in.text("name"), .config = in.config("config")};
    for (const auto& [other, known] : out_.agreements) made.of_name += known.name == made.name;
    if (!out_.agreements.try_emplace(number, std::move(made)).second)
      in.fail("number", "an agreement has this number already");
  }

  void take_state(RecordFields& in) {
    std::string frame = in.text("frame");
    if (in.has("agreement")) {
      const auto of = out_.agreements.find(static_cast<int>(in.integer("agreement", 1, INT32_MAX)));
      if (of == out_.agreements.end()) return in.fail("agreement", "no agreement has this number");
      frame = frame_of(frame, of->second);
    }
    const bool first = in.has("stored");
    const std::string_view field = first ? "stored" : "profile";
    const std::string text = in.text(field);
    const auto bytes = std::as_bytes(std::span(text));
    std::optional<coordinator::Profile> profile;
    if (first)
      profile = coordinator::decode_first_profile(bytes);
    else if (auto kept = coordinator::decode_profile(bytes))
      profile = std::move(kept->profile);
    if (!profile) return in.fail(field, "this is no state that a frame can start from");
    FrameState& state = stored_[frame];
    out_.profiled = true;
    for (const auto& [name, source] : *profile) state[name] = source.seen;
  }

  void take_entries(RecordFields& in) {
    const std::string frame = in.text("frame"), group = in.text("group"), text = in.text("entries");
    auto entries = decode_starts(std::as_bytes(std::span(text)));
    if (!entries)
      return in.fail("entries", "no frame starts from such entries: " + entries.error().message);
    started_[{group, frame}] = std::make_shared<const std::vector<Entry>>(*std::move(entries));
    out_.loaded = true;
  }

  void take_call(RecordFields& in, std::uint64_t offset) {
    if (out_.ends_within_a_call())
      return in.fail("event", "a call starts before the one before it has ended");
    RecordedCall call = read_call_line(in, lists_, out_.agreements, out_.lines);
    const auto& slots = out_.calls.slots();
    if (!out_.calls.empty() && (call.agreement > 0) == slots.empty())
      in.fail("agreement", "of the calls of a record either all are of agreements or none is");
    if (call.agreement > 0 && !slots.empty() && slot_of(call.key) <= slots.back())
      in.fail("key", "this call does not come after the one before it");
    if (in.error()) return;
    if (auto state = stored_.extract(call.frame); !state.empty())
      call.stored = std::move(state.mapped());
    if (auto start = started_.extract({call.key.group, call.frame}); !start.empty())
      call.entries = std::move(start.mapped());
    close_call();
    if (call.own_config) out_.own_configs[call.frame] = *call.own_config;
    out_.calls.start(offset, call);
    out_.last_call = std::move(call);
  }

  /// Ends the last call, after all its lines have been read.
  void close_call() {
    if (!out_.last_call) return;
    out_.calls.end(stretch_);
    stretch_.clear();
    if (const auto& outcome = out_.last_call->outcome) {
      ++out_.outcomes[static_cast<std::size_t>(outcome->kind)];
      if (outcome->error) {
        out_.last_error = {out_.last_call->key, *outcome->error};
        if (!out_.first_error) out_.first_error = out_.last_call->key;
      }
    }
    if (visit_) visit_(out_, *out_.last_call);
  }

  SourceLists& known_;
  const CallVisitor& visit_;
  RankRecord out_;
  SourceLists lists_;                         // source lists of this rank
  std::map<std::string, FrameState> stored_;  // states of frames not called yet
  /// Start entries of frames not called yet, by group and name.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const std::vector<Entry>>> started_;
  std::string stretch_;  // the lines of the last call
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

Result<std::vector<RankRecord>> read_record(const std::string& directory,
                                            const CallVisitor& visit) {
  const auto files = record_files(directory);
  if (!files) return files.error();
  std::vector<RankRecord> out;
  SourceLists known;
  for (const std::string& file : *files) {
    auto rank = RankReader(file, known, visit).read();
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
    if (header.rank.value > static_cast<std::int32_t>(i))
      return refuse(directory, fmt::format("the record of rank {} is missing", i));
    if (header.rank.value < static_cast<std::int32_t>(i))
      return refuse(directory, fmt::format("the record of rank {} is there twice, in {} and {}",
                                           header.rank.value, out[i - 1].path, out[i].path));
  }
  if (out.size() != static_cast<std::size_t>(first.world_size))
    return refuse(directory, fmt::format("the record of rank {} is missing, of {} ranks",
                                         out.size(), first.world_size));
  return out;
}

}  // namespace lockstep::worker::simulator
