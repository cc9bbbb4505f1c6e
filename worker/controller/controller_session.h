// The controller's conversation with its workers: commands in flight, questions, failures, and
// traces that the workers ask for.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/turn.h>
#include <lockstep/worker/controller/controller_link.h>
#include <lockstep/worker/controller/remote_tensor.h>

namespace lockstep::worker {

struct ControllerOptions {
  /// Longest silence of worker 0 while a call waits; then the call is Stuck.
  Duration deadline = std::chrono::seconds(60);
  /// Limits for unfinished commands: their number and their bytes. A further command waits.
  std::size_t most_commands = 1024;
  std::size_t most_bytes = std::size_t{256} << 20;
  /// Asked repeatedly during a wait: true ends the wait with Gone. Commands already sent still run,
  /// and the controller stays usable. Empty: waits are not interrupted.
  std::function<bool()> interrupted{};
};

/// Answers a request for a trace. The result is sent back unchanged.
using AnswerTrace = std::function<TraceAnswer(const TraceRequest&)>;

/// One call at a time: callers hold the turn (enter()).
class ControllerSession {
 public:
  /// Errors: those of ControllerLink::open; BadInput (the workers have another controller), Version
  /// (the workers speak another version).
  [[nodiscard]] static Result<std::unique_ptr<ControllerSession>> open(
      const collectives::Endpoint& to, collectives::Secret secret,
      const ControllerOptions& options);

  /// Ends the process if a call of another thread, which uses this object, is under way.
  ~ControllerSession();
  ControllerSession(const ControllerSession&) = delete;
  ControllerSession& operator=(const ControllerSession&) = delete;
  /// Takes the turn for a call of the controller, its frames or its programs. Errors: BadInput
  /// (Turns::take).
  [[nodiscard]] Result<Turn> enter(std::string_view call) { return turns_.take(call); }
  /// What the workers held when this controller connected.
  [[nodiscard]] const Held& held() const { return held_; }
  [[nodiscard]] const std::shared_ptr<DroppedHandles>& dropped() const { return dropped_; }
  [[nodiscard]] Handle new_handles(std::uint64_t count) {
    return std::exchange(next_, after(next_, count));
  }
  [[nodiscard]] std::uint64_t new_call() { return calls_++; }
  [[nodiscard]] std::uint64_t new_question() { return questions_++; }
  void trace_by(FrameNumber frame, AnswerTrace answer) {
    tracers_.insert_or_assign(frame, std::move(answer));
  }

  /// Sends the command; waits while too many are unfinished. Errors: the failure of an earlier
  /// command (returned by one call only, which does not send its command); Stuck; the workers'
  /// error after they have ended.
  [[nodiscard]] Result<void> give(Command command, const std::string& what);
  /// Sends a question and waits for its answer. Errors: as give(), also the failure of this
  /// command.
  template <class Answer>
  [[nodiscard]] Result<Answer> ask(Command question, const std::string& what) {
    if (auto given = give(std::move(question), what); !given) return given.error();
    return answer<Answer>(what);
  }
  /// Waits for the answer to a question that was sent. `first`: first output handle of a call. If
  /// the wait is interrupted, the outputs are dropped when the answer arrives.
  template <class Answer>
  [[nodiscard]] Result<Answer> answer(const std::string& what, Handle first = {});

 private:
  ControllerSession(std::unique_ptr<ControllerLink> link, const ControllerOptions& options)
      : link_(std::move(link)), options_(options) {}
  [[nodiscard]] Result<void> greet();
  [[nodiscard]] Result<void> wait(const std::string& what);
  [[nodiscard]] bool interrupted();
  void take_answer(Reply reply);
  void listen();
  void hear(Reply reply);
  void send(const Command& command, std::string what);
  [[nodiscard]] std::optional<Status> failure();
  [[nodiscard]] bool full() const {
    return on_their_way_.size() >= options_.most_commands || bytes_ > options_.most_bytes;
  }

  struct OnItsWay {
    std::string what;
    std::size_t bytes = 0;
  };
  Turns turns_{"a controller"};
  std::unique_ptr<ControllerLink> link_;
  ControllerOptions options_;
  SystemClock clock_;
  Held held_;
  std::shared_ptr<DroppedHandles> dropped_ = std::make_shared<DroppedHandles>();
  Handle next_{};
  std::uint64_t calls_ = 0, questions_ = 1, done_ = 0;
  std::deque<OnItsWay> on_their_way_;
  std::size_t bytes_ = 0;
  std::map<FrameNumber, AnswerTrace> tracers_;
  std::optional<Reply> answer_;               // answer to the question for which answer() waits
  std::deque<Handle> interrupted_questions_;  // `first` of each question whose wait was interrupted
  Instant asked_{0};                          // last call of options_.interrupted
  std::optional<Status> failed_;              // first failure that no call has returned yet
  std::optional<Status> over_;                // the workers have ended, or are silent
  bool tracing_ = false;
};

template <class Answer>
Result<Answer> ControllerSession::answer(const std::string& what, Handle first) {
  while (!answer_) {
    auto waited = wait(what);
    if (waited) continue;
    interrupted_questions_.push_back(first);
    return waited.error();
  }
  Reply told = *std::exchange(answer_, std::nullopt);
  if (auto failed = failure()) return *failed;
  if (auto* mine = std::get_if<Answer>(&told)) return std::move(*mine);
  return internal_error("worker 0 answers another question than was asked");
}

}  // namespace lockstep::worker
