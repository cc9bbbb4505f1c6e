// A worker's commands for programs: loads saved programs, and has the controller trace its
// functions.
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/controller/messages/group_question.h>
#include <lockstep/worker/controller/workers/command_batch.h>
#include <lockstep/worker/controller/workers/worker_loop.h>
#include <lockstep/worker/files/saved/saved_bytes.h>
#include <lockstep/worker/files/saved/start_entries.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {
namespace {

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Encodes the decision as an entry without a graph.
std::string decision_bytes(const Decision& decision) {
  std::vector<SourceSpec> specs;
  for (const SourceDecision& source : decision.sources) specs.push_back(source.spec);
  auto list = std::make_shared<const SourceList>(std::move(specs));
  std::vector<Entry> entries;
  entries.push_back(Entry::make(decision, decision, std::move(list), {}, {}));
  return text_of(encode_starts(entries));
}

/// Returns the graph of an answer. An error if it was not traced under the decision of `setup`.
Result<Graph> graph_in(const TraceAnswer& answer, const TraceSetup& setup) {
  if (answer.failure) return *answer.failure;
  auto program = decode_program(bytes_in(answer.program), {});
  if (!program)
    return Status{Code::TraceError, fmt::format("frame {}: the controller's trace {}", setup.frame,
                                                program.error().message)};
  if (program->entries.size() != 1 || program->entries[0].decision != setup.decision)
    return Status{Code::TraceError,
                  fmt::format("frame {}: the controller's trace is one of another "
                              "call; start it with the workers' build",
                              setup.frame)};
  return std::move(program->entries[0].graph);
}

}  // namespace

Result<void> WorkerLoop::on(const ShipProgram& ship) {
  if (coordinator::content_digest(bytes_in(ship.program)) == ship.digest)
    programs_[ship.digest] = ship.program;
  else
    fail(bad_input("a program came otherwise than the controller sent it"));
  return {};
}

Result<void> WorkerLoop::on(const LoadFrame& load) {
  const auto found = programs_.find(load.digest);
  std::optional<Status> wrong;
  if (static_cast<std::size_t>(load.frame) != frames_.size())
    wrong = bad_input(fmt::format("{} is to be frame {}, and the next one is {}", load.from,
                                  static_cast<std::uint32_t>(load.frame), frames_.size()));
  else if (found == programs_.end())
    wrong = bad_input(fmt::format("{} was not sent to the workers", load.from));
  if (wrong) {
    fail(*wrong);
    return {};
  }
  auto program = decode_program(bytes_in(found->second), {});
  if (!program)
    program =
        Status{program.error().code, fmt::format("{} {}", load.from, program.error().message)};
  auto loaded = job_.load(std::move(program), load.from);
  if (loaded) {
    frames_.emplace_back(std::in_place_type<WorkerFrame>, *std::move(loaded), load.digest);
    return {};
  }
  if (loaded.error().code != Code::BadInput && loaded.error().code != Code::CompileError)
    return loaded.error();
  frames_.emplace_back(loaded.error());
  fail(loaded.error());
  return {};
}

Result<void> WorkerLoop::on(const MakeFrame& make) {
  if (static_cast<std::size_t>(make.frame) != frames_.size()) {
    fail(bad_input(fmt::format("{} is to be frame {}, and the next one is {}", make.name,
                               static_cast<std::uint32_t>(make.frame), frames_.size())));
    return {};
  }
  for (const FrameSlot& slot : frames_)
    if (const auto* other = std::get_if<WorkerFrame>(&slot);
        other != nullptr && other->name() == make.name) {
      const Status taken =
          bad_input(fmt::format("the workers have a frame {} already; give another frame "
                                "another name",
                                make.name));
      frames_.emplace_back(taken);
      fail(taken);
      return {};
    }
  FrameRunner& runner = job_.frame_traced_by(
      make.name,
      [this, frame = make.frame](const TraceSetup& setup) { return trace(frame, setup); });
  frames_.emplace_back(std::in_place_type<WorkerFrame>, runner, make.name);
  return {};
}

Result<TraceAnswer> WorkerLoop::ask_for_trace(TraceRequest& asked, const TraceSetup& setup) {
  asked.number = ++questions_;
  Bytes answer;
  if (lead_) {
    lead_->send(asked);
    auto heard =
        lead_->trace_answer(questions_, (kEdgeDeadlines - 2) * job_.context().settings.deadline);
    if (!heard)
      heard = encode(Command(TraceAnswer{
          questions_,
          Status{Code::TraceError,
                 fmt::format("frame {}: the controller has left, or is busy elsewhere, and did not "
                             "trace it; it traces when it makes a call or looks at a result",
                             setup.frame)},
          {},
          {}}));
    answer = *std::move(heard);
  }
  auto shared = job_.size() == 1 ? Result<Bytes>(std::move(answer))
                                 : share(workers(), std::move(answer), Rank{0});
  if (!shared) return shared.error();
  auto told = decode_command(*shared);
  if (auto* made = told ? std::get_if<TraceAnswer>(&*told) : nullptr; made != nullptr)
    return std::move(*made);
  return internal_error("worker 0 passes on what is no trace");
}

/// All workers call this at the same point of the call. Worker 0 asks the controller, and all use
/// the answer. If the trace asks all workers, they vote, and the function is traced again.
DistantTrace WorkerLoop::trace(FrameNumber frame, const TraceSetup& setup) {
  TraceRequest asked{.frame = frame,
                     .decision = decision_bytes(setup.decision),
                     .seen = *setup.observation,
                     .workers = static_cast<std::uint32_t>(job_.size()),
                     .specialize_float = setup.specialize_float,
                     .low_precision = setup.low_precision};
  asked.seen.marks.clear(), asked.seen.orders.clear(), asked.seen.fields.clear();
  for (;;) {
    auto answer = ask_for_trace(asked, setup);
    if (!answer) return {answer.error(), answer.error()};
    if (answer->question.empty()) {
      Result<Graph> graph = graph_in(*answer, setup);
      if (graph) {
        std::vector<std::string> names;
        for (const Graph::Output& output : graph->outputs) names.push_back(output.name);
        std::get<WorkerFrame>(frames_[static_cast<std::size_t>(frame)])
            .traced({std::move(asked), graph->fingerprint(), std::move(names)});
      }
      return {std::move(graph), {}};
    }
    // An error of this worker alone ends its trace; the vote tells the others.
    const auto mine = answer_question(answer->question, setup.decision, *setup.observation);
    if (!mine) return {mine.error(), {}};
    const auto any = setup.host->group_any(*mine, {});
    if (!any) return {any.error(), {}};
    asked.answers.push_back(*any);
  }
}

}  // namespace lockstep::worker
