#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/frame_tracing.h>
#include <lockstep/worker/controller/messages/group_question.h>
#include <lockstep/worker/files/saved/saved_bytes.h>
#include <lockstep/worker/files/saved/start_entries.h>

namespace lockstep::worker {
namespace {

/// Answers a trace's questions in place of the workers. A value of worker 0, the lowest rank, is in
/// the observation of the request. Questions to all workers are answered by the votes so far; the
/// first question without a vote ends the trace.
class WorkersAnswer final : public TraceHost {
 public:
  WorkersAnswer(const TraceRequest& asked, const Decision& decision)
      : asked_(asked), decision_(decision) {}
  Result<bool> group_any(bool mine, const shapes::Predicate& predicate) override {
    if (asked_.workers == 1) return mine;
    if (next_ < asked_.answers.size()) return asked_.answers[next_++];
    auto question = encode_question(decision_, predicate);
    if (!question) return question.error();
    question_ = *std::move(question);
    return Status{Code::TraceError, "the function asks the group what it has not asked before"};
  }
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override { return mine; }
  [[nodiscard]] std::string take_question() { return std::move(question_); }

 private:
  const TraceRequest& asked_;
  const Decision& decision_;
  std::size_t next_ = 0;
  std::string question_;
};

}  // namespace

std::string inputs_key(const std::vector<SourceSpec>& sources) {
  std::string out;
  for (const SourceSpec& source : sources)
    out += fmt::format("{} {}\n", kind_name(source.kind), source.name);
  return out;
}

Result<WantedTrace> wanted_trace(const TraceRequest& asked) {
  auto entries = decode_starts(std::as_bytes(std::span(asked.decision)));
  if (!entries) return entries.error();
  if (entries->size() != 1)
    return bad_input("the workers ask for the trace of more than one entry");
  WantedTrace out{std::move(entries->front().decision), {}};
  const std::vector<SourceSpec> specs = out.decision.list()->sources();
  if (specs != asked.seen.list->sources())
    return bad_input("the workers ask for the trace of other inputs than they have");
  out.key = inputs_key(specs);
  return out;
}

MadeTrace trace_for(const std::string& frame, const TraceRequest& asked, const WantedTrace& wanted,
                    const RecordFrame& record) {
  WorkersAnswer host(asked, wanted.decision);
  const auto workers = static_cast<int>(asked.workers);
  auto graph = trace({.frame = frame,
                      .decision = wanted.decision,
                      .observation = &asked.seen,
                      .group_size = workers,
                      .group = {"", RankSet::all(workers), Rank{0}},
                      .host = &host,
                      .specialize_float = asked.specialize_float,
                      .low_precision = asked.low_precision},
                     record);
  return {std::move(graph), host.take_question()};
}

TraceAnswer answer_with(const std::string& frame, const TraceRequest& asked,
                        const WantedTrace& wanted, MadeTrace made) {
  TraceAnswer out{asked.number, {}, {}, std::move(made.question)};
  if (!out.question.empty()) return out;
  if (!made.graph) {
    out.failure = made.graph.error();
    return out;
  }
  SavedProgram program{.frame = frame, .ranks = static_cast<int>(asked.workers)};
  program.entries.push_back({.decision = wanted.decision, .graph = *std::move(made.graph)});
  auto bytes = encode(program);
  if (bytes)
    out.program.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  else
    out.failure = Status{Code::TraceError,
                         fmt::format("frame {}: its program cannot be sent to the workers: {}",
                                     frame, bytes.error().message)};
  return out;
}

}  // namespace lockstep::worker
