#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/frame_tracing.h>
#include <lockstep/worker/saved/saved_bytes.h>
#include <lockstep/worker/saved/start_entries.h>

namespace lockstep::worker {
namespace {

/// What worker 0 would answer as the lowest rank is known here, since its scalars came with the
/// question. What all workers are to be asked is not.
class WorkersAnswer final : public TraceHost {
 public:
  WorkersAnswer(const std::string& frame, std::uint32_t workers)
      : frame_(frame), workers_(workers) {}
  Result<bool> group_any(bool mine) override {
    if (workers_ == 1) return mine;
    return Status{Code::TraceError,
                  fmt::format("frame {}: group_any() and group_all() ask every worker for its "
                              "sizes, which a controller's trace cannot do; compute both sides and "
                              "select, or run the frame on ranks of a job",
                              frame_)};
  }
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override { return mine; }

 private:
  const std::string& frame_;
  std::uint32_t workers_;
};

}  // namespace

std::string inputs_key(const std::vector<SourceSpec>& sources) {
  std::string out;
  for (const SourceSpec& source : sources)
    out += fmt::format("{} {}\n", kind_name(source.kind), source.name);
  return out;
}

Result<WantedTrace> wanted_trace(const TraceAsked& asked) {
  auto entries = decode_starts(std::as_bytes(std::span(asked.decision)));
  if (!entries) return entries.error();
  if (entries->size() != 1)
    return Status{Code::BadInput, "the workers ask for the trace of more than one entry"};
  WantedTrace out{std::move(entries->front().decision), {}};
  std::vector<SourceSpec> specs;
  for (const SourceDecision& source : out.decision.sources) specs.push_back(source.spec);
  if (specs != asked.seen.list->sources())
    return Status{Code::BadInput, "the workers ask for the trace of other inputs than they have"};
  out.key = inputs_key(specs);
  return out;
}

Result<Graph> trace_for(const std::string& frame, const TraceAsked& asked,
                        const WantedTrace& wanted, const RecordFrame& record) {
  WorkersAnswer host(frame, asked.workers);
  const auto workers = static_cast<int>(asked.workers);
  return trace({.frame = frame,
                .decision = wanted.decision,
                .observation = &asked.seen,
                .group_size = workers,
                .group = {"", RankSet::all(workers), Rank{0}},
                .host = &host,
                .specialize_float = asked.specialize_float,
                .low_precision = asked.low_precision},
               record);
}

TraceAnswer answer_with(const std::string& frame, const TraceAsked& asked,
                        const WantedTrace& wanted, Result<Graph> graph) {
  TraceAnswer out{asked.number, {}, {}};
  if (!graph) {
    out.failure = graph.error();
    return out;
  }
  SavedProgram program{.frame = frame, .ranks = static_cast<int>(asked.workers)};
  program.entries.push_back({.decision = wanted.decision, .graph = *std::move(graph)});
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
