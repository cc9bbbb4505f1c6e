#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/coordinator/store/profile.h>
#include <lockstep/worker/agree/agreement/record.h>

namespace lockstep::worker {
namespace {

using nlohmann::ordered_json;

bool is_utf8(const std::string& text) {
  try {
    (void)ordered_json(text).dump();
    return true;
  } catch (const ordered_json::exception&) {
    return false;
  }
}

ordered_json bytes_json(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"hex", hex}};
}

/// Text of users as a JSON string; {"hex": "…"} if it is not UTF-8.
ordered_json text_json(std::string_view text) {
  std::string copy(text);
  if (is_utf8(copy)) return copy;
  return bytes_json(text);
}

ordered_json fields_json(const std::vector<Field>& fields) {
  ordered_json out = ordered_json::array();
  for (const auto& [spec, value] : fields) {
    ordered_json one{{"name", text_json(spec.name)},
                     {"type", field_type_name(spec.type)},
                     {"join", field_join_name(spec.join)}};
    if (spec.type == FieldType::Bool) one["value"] = value.number != 0;
    if (spec.type == FieldType::Int) one["value"] = value.number;
    if (spec.type == FieldType::Text || spec.type == FieldType::Object)
      one["value"] = text_json(value.bytes);
    if (spec.type == FieldType::Bytes) one["value"] = bytes_json(value.bytes);
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json status_json(const Status& status) {
  ordered_json groups = ordered_json::array();
  for (const RankValue& group : status.groups)
    groups.push_back({{"ranks", group.ranks.text()}, {"value", text_json(group.value)}});
  return {{"code", code_name(status.code)},
          {"message", text_json(status.message)},
          {"source", text_json(status.source)},
          {"groups", groups}};
}

ordered_json key_json(const RoundKey& key) {
  ordered_json out{{"epoch", key.epoch},
                   {"group", text_json(key.group)},
                   {"frame", text_json(key.frame)},
                   {"round", key.round},
                   {"call", key.call},
                   {"attempt", key.attempt}};
  if (key.consistency) out["consistency"] = consistency_name(*key.consistency);
  if (!key.options.empty()) out["options"] = text_json(key.options);
  if (!key.after.empty()) out["after"] = text_json(key.after);
  if (!key.pending_call.empty()) {
    out["owed"] = text_json(key.pending_call);
    out["owed_round"] = key.pending_round;
  }
  return out;
}

ordered_json sources_json(const SourceList& list) {
  ordered_json out = ordered_json::array();
  for (const SourceSpec& spec : list.sources()) {
    ordered_json one{{"name", text_json(spec.name)}, {"kind", kind_name(spec.kind)}};
    if (spec.kind == Kind::Tensor) {
      one["dtype"] = dtype_name(spec.dtype);
      one["ndim"] = spec.ndim;
    }
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json config_json(const DecisionConfig& config) {
  ordered_json out{{"consistency", consistency_name(config.consistency)},
                   {"automatic_dynamic", config.automatic_dynamic},
                   {"assume_at_least_two", config.assume_at_least_two},
                   {"recompile_limit", config.recompile_limit},
                   {"settle", config.settle}};
  if (config.specialize_int) out["specialize_int"] = true;
  return out;
}

ordered_json host_values_json(const std::vector<HostValue>& values) {
  ordered_json out = ordered_json::array();
  for (const HostValue& value : values) {
    ordered_json steps = ordered_json::array();
    for (const HostValue::Step& step : value.steps) {
      ordered_json one{{"do", host_code_name(step.code)}};
      if (step.code == HostValue::Code::Input) one["source"] = text_json(step.source);
      if (step.code == HostValue::Code::Number)
        one["bits"] = std::bit_cast<std::int64_t>(step.number);
      steps.push_back(std::move(one));
    }
    out.push_back(std::move(steps));
  }
  return out;
}

ordered_json program_json(const RecordHeader::Program& program) {
  ordered_json arguments = ordered_json::array();
  for (const std::string& argument : program.arguments) arguments.push_back(text_json(argument));
  return {{"path", text_json(program.path)},
          {"arguments", std::move(arguments)},
          {"directory", text_json(program.directory)}};
}

Status refuse(Code code, const std::string& path, std::string_view what) {
  return {code, fmt::format("{}: {}", path, what), {}, {}};
}

}  // namespace

class Recorder::Line {
 public:
  explicit Line(std::string_view event) { json["event"] = event; }
  ordered_json json;
};

std::optional<RecordHeader::Program> this_program() {
  std::error_code failed;
  RecordHeader::Program out;
  out.path = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (!failed) out.directory = std::filesystem::current_path(failed).string();
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::string word;
  for (bool first = true; std::getline(words, word, '\0'); first = false)
    if (!first) out.arguments.push_back(word);
  if (failed || out.path.empty()) return std::nullopt;
  return out;
}

std::string record_file_name(Rank rank) { return fmt::format("rank-{:05d}.jsonl", rank.value); }

Recorder::Recorder(int fd, std::string path)
    : fd_(fd), path_(std::move(path)), last_(clock_.now()) {}

Recorder::~Recorder() { ::close(fd_); }

Result<std::unique_ptr<Recorder>> Recorder::open(const std::string& directory,
                                                 const RecordHeader& header, Report report) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path =
      (std::filesystem::path(directory) / record_file_name(header.rank)).string();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST)
    return refuse(Code::BadInput, directory,
                  "there is a record here already; remove it or choose another directory");
  if (fd < 0)
    return refuse(Code::Environment, directory,
                  fmt::format("cannot be written ({}); choose another directory for the record",
                              std::strerror(errno)));
  std::unique_ptr<Recorder> out(new Recorder(fd, path));
  Line line("header");
  line.json = {{"format", kRecordFormat},
               {"world_size", header.world_size},
               {"rank", header.rank.value},
               {"config", config_json(header.config)},
               {"build", text_json(header.build_id)},
               {"columns", kColumnsVersion}};
  if (header.program) line.json["program"] = program_json(*header.program);
  out->write(line);
  if (out->cut_) {
    ::unlink(path.c_str());
    return refuse(Code::Environment, directory,
                  "the disk takes no record; free some space or choose another directory");
  }
  out->report_ = std::move(report);
  return out;
}

void Recorder::write(const Line& line) {
  if (cut_) return;
  const std::string text = line.json.dump() + "\n";
  ssize_t n = 0;
  do {
    n = ::write(fd_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) return;
  cut_ = true;
  if (report_)
    report_(refuse(Code::Environment, path_,
                   fmt::format("the record ends here, the disk takes no more ({})",
                               n < 0 ? std::strerror(errno) : "no space left")));
}

std::int64_t Recorder::since_last() {
  const Instant now = clock_.now();
  return (now - std::exchange(last_, now)).count();
}

void Recorder::group(std::string_view name, const RankSet& members) {
  Line line("group");
  line.json["name"] = text_json(name);
  line.json["ranks"] = members.text();
  write(line);
}

void Recorder::agreement(int number, std::string_view name, const DecisionConfig& config) {
  Line line("agreement");
  line.json["number"] = number;
  line.json["name"] = text_json(name);
  line.json["config"] = config_json(config);
  write(line);
}

shapes::Fingerprint observation_digest(const Observation& observation,
                                       std::span<const std::int64_t> placed) {
  shapes::FingerprintBuilder out;
  out.add(observation.list->digest());
  for (const auto numbers : {std::span<const std::int64_t>(observation.values), placed}) {
    out.add(static_cast<std::int64_t>(numbers.size()));
    for (const std::int64_t number : numbers) out.add(number);
  }
  for (const Mark mark : observation.marks) out.add(static_cast<std::int64_t>(mark));
  for (const std::int64_t scalar : observation.scalars) out.add(scalar);
  for (const auto& [spec, value] : observation.fields)
    out.add(spec.name).add(spec_text(spec)).add(value.number).add(value.bytes);
  return out.finish();
}

void Recorder::restored(std::string_view frame, const FrameState& state, int agreement) {
  coordinator::KeptProfile kept;
  for (const auto& [name, seen] : state) kept.profile[name].seen = seen;
  const Bytes bytes = coordinator::encode(kept);
  Line line("state");
  line.json["frame"] = text_json(frame);
  if (agreement > 0) line.json["agreement"] = agreement;
  line.json["profile"] = text_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  write(line);
}

void Recorder::started(std::string_view frame, std::string_view group,
                       std::span<const std::byte> entries) {
  Line line("entries");
  line.json["frame"] = text_json(frame);
  line.json["group"] = text_json(group);
  line.json["entries"] =
      bytes_json({reinterpret_cast<const char*>(entries.data()), entries.size()});
  write(line);
}

void Recorder::began(const CallMachine& machine) {
  const Observation& observation = machine.observation();
  const RankStatus& rank_status = machine.rank_status();
  if (known_lists_.insert(observation.list->digest()).second) {
    Line list("sources");
    list.json["digest"] = observation.list->digest().text();
    list.json["sources"] = sources_json(*observation.list);
    write(list);
  }
  Line line("call");
  line.json["key"] = key_json(machine.key());
  if (machine.cache().agreement > 0) line.json["agreement"] = machine.cache().agreement;
  line.json["sources"] = observation.list->digest().text();
  line.json["values"] = observation.values;
  if (!observation.orders.empty()) line.json["orders"] = observation.orders;
  if (!observation.marks.empty()) {
    line.json["marks"] = ordered_json::array();
    for (const Mark mark : observation.marks) line.json["marks"].push_back(mark_name(mark));
  }
  if (!observation.scalars.empty()) line.json["scalars"] = observation.scalars;
  if (!observation.fields.empty()) line.json["fields"] = fields_json(observation.fields);
  line.json["seen"] = observation_digest(observation).text();
  if (rank_status.pending != 0) line.json["pending"] = fmt::format("{:016x}", rank_status.pending);
  if (rank_status.untested) line.json["untested"] = true;
  if (rank_status.local_error) line.json["trouble"] = status_json(*rank_status.local_error);
  line.json["ns"] = since_last();
  write(line);
}

void Recorder::acts(const Action& action) {
  Line line("action");
  line.json["text"] = text_json(action_text(action));
  line.json["ns"] = since_last();
  write(line);
}

void Recorder::traced(const TraceReport& report) {
  Line line("trace");
  line.json["graph"] = report.graph.text();
  line.json["guards"] = ordered_json::array();
  for (const shapes::Guard& guard : report.guards)
    line.json["guards"].push_back({{"text", guard.predicate.text()},
                                   {"file", text_json(guard.where.file)},
                                   {"line", guard.where.line}});
  if (!report.host_values.empty()) line.json["host_values"] = host_values_json(report.host_values);
  for (const GroupGuard& guard : report.group_guards)
    line.json["group_guards"].push_back(
        {{"text", guard.predicate.text()},
         {"over", guard.over == GroupGuard::Over::Any ? "any" : "all"},
         {"value", guard.value},
         {"file", text_json(guard.where.file)},
         {"line", guard.where.line}});
  for (const UniformSize& size : report.uniform)
    line.json["uniform"].push_back({{"text", size.expr.text()},
                                    {"what", size.what},
                                    {"file", text_json(size.where.file)},
                                    {"line", size.where.line}});
  if (report.collectives != shapes::Fingerprint{})
    line.json["collectives"] = report.collectives.text();
  if (report.skeleton != shapes::Fingerprint{}) line.json["skeleton"] = report.skeleton.text();
  if (!report.prefixes.empty()) {
    line.json["prefixes"] = ordered_json::array();
    for (const shapes::Fingerprint& prefix : report.prefixes)
      line.json["prefixes"].push_back(prefix.text());
  }
  if (report.caller_built) line.json["caller_built"] = true;
  if (report.failure) line.json["failure"] = status_json(*report.failure);
  line.json["ns"] = since_last();
  write(line);
}

void Recorder::explained(std::string_view text) {
  Line line("explain");
  line.json["text"] = text_json(text);
  write(line);
}

void Recorder::compiled(const std::optional<Status>& failure) {
  Line line("compile");
  if (failure) line.json["failure"] = status_json(*failure);
  line.json["ns"] = since_last();
  write(line);
}

void Recorder::ended(const CallMachine&, const CallOutcome& outcome, const CallTimes&) {
  Line line("end");
  constexpr const char* kNames[] = {"reused", "compiled", "fallback", "error"};
  line.json["outcome"] = kNames[static_cast<std::size_t>(outcome.kind)];
  if (outcome.entry >= 0) line.json["entry"] = outcome.entry;
  if (outcome.error) line.json["error"] = status_json(*outcome.error);
  line.json["ns"] = since_last();
  write(line);
}

void Recorder::round(const RoundKey& key, const Result<void>& result) {
  Line line("round");
  line.json["key"] = key_json(key);
  line.json["kind"] = static_cast<int>(key.kind);
  if (!result) line.json["error"] = status_json(result.error());
  line.json["ns"] = since_last();
  write(line);
}

}  // namespace lockstep::worker
