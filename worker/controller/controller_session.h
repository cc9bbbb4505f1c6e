// The controller's conversation with its workers: commands that are on their way, questions,
// failures, and the traces that the workers ask for.
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
  /// How long worker 0 may not be heard of while something is waited for.
  Duration deadline = std::chrono::seconds(60);
  /// How much may be on its way: commands that are not done, and their bytes. One more waits.
  std::size_t most_commands = 1024;
  std::size_t most_bytes = std::size_t{256} << 20;
  /// Asked now and then while something is waited for: true ends the wait with Gone. What the
  /// workers were told goes on, and so may the controller. Empty: nothing ends a wait.
  std::function<bool()> interrupted{};
};

/// Answers a question of the workers; sent back as it is.
using AnswerTrace = std::function<TraceAnswer(const TraceAsked&)>;

/// One call at a time: whoever calls has entered.
class ControllerSession {
 public:
  /// Errors: those of ControllerLink::open; BadInput (the workers have another controller), Version
  /// (they speak another version).
  [[nodiscard]] static Result<std::unique_ptr<ControllerSession>> open(
      const collectives::Endpoint& to, collectives::Secret secret,
      const ControllerOptions& options);

  /// Ends the process where a call of another thread is under way: what that uses must not go away.
  ~ControllerSession();
  ControllerSession(const ControllerSession&) = delete;
  ControllerSession& operator=(const ControllerSession&) = delete;
  /// The turn of a call of the controller, its frames or its programs. Errors: BadInput
  /// (Turns::take).
  [[nodiscard]] Result<Turn> enter(std::string_view call) { return turns_.take(call); }
  /// What the workers had when this controller came.
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

  /// Sends the command; waits while too much is on its way. Errors: the failure of an earlier
  /// command, once, in place of sending this one; Stuck; the end of the workers, from then on.
  [[nodiscard]] Result<void> give(Command command, const std::string& what);
  /// Sends a question and waits for its answer. Errors: as give(), of this one and all before it.
  template <class Answer>
  [[nodiscard]] Result<Answer> ask(Command question, const std::string& what) {
    if (auto given = give(std::move(question), what); !given) return given.error();
    return answer<Answer>(what);
  }
  /// Waits for the answer to a question that was given. `first`: of a call's outputs, which nobody
  /// has where the wait is interrupted.
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
  std::optional<Reply> answer_;   // to the question that is waited for
  std::deque<Handle> unheard_;    // questions whose answers nobody waits for any more: `first`
  Instant asked_{0};              // when the user was last asked whether to go on
  std::optional<Status> failed_;  // the first failure that nobody has heard of
  std::optional<Status> over_;    // the workers have ended, or are not heard of any more
  bool tracing_ = false;
};

template <class Answer>
Result<Answer> ControllerSession::answer(const std::string& what, Handle first) {
  while (!answer_) {
    auto waited = wait(what);
    if (waited) continue;
    unheard_.push_back(first);
    return waited.error();
  }
  Reply told = *std::exchange(answer_, std::nullopt);
  if (auto failed = failure()) return *failed;
  if (auto* mine = std::get_if<Answer>(&told)) return std::move(*mine);
  return internal_error("worker 0 answers another question than was asked");
}

}  // namespace lockstep::worker
