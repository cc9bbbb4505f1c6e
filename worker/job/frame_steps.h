// The tracing and compiling steps of one call of a frame. Internal to the frame's own files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/worker/files/saved/saved_program.h>
#include <lockstep/worker/job/frame_state.h>

namespace lockstep::worker {

/// The tracing and compiling steps of one call.
class FrameRunner::Steps final : public CallSteps, private TraceHost {
 public:
  Steps(State& frame, const Observation& seen, const std::function<void(Trace&)>& body)
      : frame_(frame), seen_(seen), body_(body) {}

  Result<TraceReport> trace(const Decision& decision) override;
  std::string explain(std::size_t node) override;
  std::optional<Status> compile() override;

  /// Makes an entry of a saved program ready to run, in place of trace and compile: from its
  /// objects if all ranks can load theirs, else as compile(). Collective; an error is this rank's
  /// own.
  [[nodiscard]] std::optional<Status> load(SavedEntry& entry, const PackedFor* packed,
                                           RoundKey round);
  /// Traces the function of `entry` once more, without votes, and compares: an error if the graph
  /// has changed.
  [[nodiscard]] std::optional<Status> trace_again(const Compiled& entry, int number);

  [[nodiscard]] Compiled take() { return std::move(made_); }
  /// Why entries do not fit, if none fits on this rank; for the log.
  [[nodiscard]] const std::vector<Misfit>& misfits() const { return misfits_; }
  [[nodiscard]] const std::string& story() const { return story_; }
  /// Why this rank's trace with every size a symbol failed, if it did. In the call's entry only the
  /// sizes that vary are then symbols.
  [[nodiscard]] const std::optional<Status>& refused() const { return refused_; }

 private:
  Result<bool> group_any(bool mine, const shapes::Predicate& asked) override;
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override;
  [[nodiscard]] RoundKey next_question();
  [[nodiscard]] TraceSetup setup(const Decision& decision);
  [[nodiscard]] TraceReport report_of(Result<Graph> graph);
  [[nodiscard]] Status nothing_fits() const;
  [[nodiscard]] std::optional<Status> build(Result<Program> program);
  [[nodiscard]] std::optional<Status> take_packed(Result<Program>& program,
                                                  const std::vector<PackedObject>& objects);
  State& frame_;
  const Observation& seen_;
  const std::function<void(Trace&)>& body_;
  Compiled made_;
  std::optional<Status> round_failed_, refused_;
  std::vector<Misfit> misfits_;
  std::uint32_t questions_ = 0;
  std::string story_;
};

}  // namespace lockstep::worker
