#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/worker/agree/exchange/decision_json.h>
#include <lockstep/worker/job/preview/trace_sheet.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using Json = nlohmann::ordered_json;

Json status_json(const Status& status) {
  Json groups = Json::array();
  for (const RankValue& group : status.groups)
    groups.push_back({{"ranks", group.ranks.text()}, {"value", group.value}});
  return {{"code", code_name(status.code)},
          {"source", status.source.empty() ? Json(nullptr) : Json(status.source)},
          {"groups", std::move(groups)},
          {"message", status.message},
          {"text", status.text()},
          {"exit_code", exit_code(status.code)}};
}

const char* outcome_word(CallOutcome::Kind kind) {
  constexpr const char* kWords[] = {"reused", "compiled", "fallback", "error"};
  return kWords[static_cast<std::size_t>(kind)];
}

}  // namespace

class TraceSheet::Line {
 public:
  explicit Line(std::string_view event) { json["event"] = event; }
  Json json;
};

TraceSheet::TraceSheet(int fd, TraceMode mode, Rank rank, int size)
    : fd_(fd), mode_(std::move(mode)), rank_(rank), size_(size) {}

TraceSheet::~TraceSheet() { ::close(fd_); }

Result<std::unique_ptr<TraceSheet>> TraceSheet::open(const TraceMode& mode, Rank rank, int size,
                                                     bool mirrors) {
  const std::string path = mode.sheet(rank.value);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST)
    return bad_input(fmt::format(
        "rank {} has made a job before; a program that is traced makes one", rank.value));
  if (fd < 0)
    return environment_error(
        fmt::format("{} cannot be written ({}); LOCKSTEP_TRACE is for `lockstep trace`", path,
                    std::strerror(errno)),
        "LOCKSTEP_TRACE");
  std::unique_ptr<TraceSheet> out(new TraceSheet(fd, mode, rank, size));
  Line line("start");
  line.json.update({{"format", kTraceSheetFormat},
                    {"rank", rank.value},
                    {"world_size", size},
                    {"mirrors", mirrors}});
  out->write(line);
  return out;
}

void TraceSheet::write(const Line& line) {
  const std::string text = line.json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the reader finds the cut line
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void TraceSheet::note(const std::string& text) {
  if (!noted_.insert(text).second) return;
  Line line("note");
  line.json["text"] = text;
  write(line);
}

void TraceSheet::know(const Graph& graph, const shapes::Fingerprint& fingerprint) {
  if (!known_.insert(fingerprint).second) return;
  std::size_t collectives = 0, checks = 0;
  for (const Node& node : graph.nodes) {
    collectives += op_row(node.op).kind == OpClass::Collective;
    checks += node.op == Op::Assert;
  }
  Line line("graph");
  line.json.update({{"fingerprint", fingerprint.text()},
                    {"frame", graph.name},
                    {"nodes", graph.nodes.size()},
                    {"collectives", collectives},
                    {"checks", checks},
                    {"text", graph.text()}});
  write(line);
}

void TraceSheet::call(const Call& call) {
  if (call.graph != nullptr) know(*call.graph, call.fingerprint);
  Line line("call");
  line.json["frame"] = call.frame;
  if (!call.group.empty()) line.json["group"] = call.group;
  line.json["outcome"] = outcome_word(call.outcome.kind);
  if (call.outcome.entry >= 0) line.json["entry"] = call.outcome.entry;
  if (call.entry != nullptr && call.outcome.kind == CallOutcome::Kind::Compiled) {
    line.json.update(Json::parse(decision_json(call.entry->decision)));
    line.json["guards"] =
        guards_json(call.entry->guards, call.entry->group_guards, call.entry->namer());
  }
  if (call.graph != nullptr) line.json["graph"] = call.fingerprint.text();
  if (call.outcome.error) line.json["error"] = status_json(*call.outcome.error);
  write(line);
  ++made_;
}

void TraceSheet::failed(std::string_view what, const Status& status) {
  Line line("failed");
  line.json["in"] = what;
  line.json["error"] = status_json(status);
  write(line);
}

void TraceSheet::finished() { write(Line("finished")); }

void TraceSheet::stop(const std::string& why) { stop(why, false); }

void TraceSheet::stop(const std::string& why, bool for_a_peer) {
  stopping_.lock();  // and never unlocked: a second thread waits here for the end
  Line line("stop");
  line.json["why"] = why;
  write(line);
  // Peers that wait for this rank in vain look for this file.
  if (std::FILE* mark = std::fopen(mode_.stopped(rank_.value).c_str(), "we")) {
    std::fputs(for_a_peer ? "for a peer\n" : "of its own\n", mark);
    std::fclose(mark);
  }
  std::cout.flush();
  std::fflush(nullptr);
  if (leave_) leave_();
  ::_exit(0);
}

void TraceSheet::stop_if_peer_stopped(const Status& verdict) {
  if (verdict.code != Code::Stuck && verdict.code != Code::RankLost) return;
  RankSet first, any;
  for (std::int32_t r = 0; r < size_; ++r) {
    std::FILE* mark = std::fopen(mode_.stopped(r).c_str(), "re");
    if (mark == nullptr) continue;
    any.insert(Rank{r});
    if (std::fgetc(mark) == 'o') first.insert(Rank{r});
    std::fclose(mark);
  }
  if (any.empty()) return;
  const RankSet& named = first.empty() ? any : first;
  stop(fmt::format("waiting for {}, which {} stopped", named.phrase(),
                   named.size() == 1 ? "has" : "have"),
       true);
}

}  // namespace lockstep::worker
