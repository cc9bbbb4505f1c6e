#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/controller_session.h>

namespace lockstep::worker {

Result<std::unique_ptr<ControllerSession>> ControllerSession::open(
    const collectives::Endpoint& to, collectives::Secret secret, const ControllerOptions& options) {
  auto link = ControllerLink::open(to, std::move(secret), options.deadline, options.interrupted);
  if (!link) return link.error();
  std::unique_ptr<ControllerSession> out(new ControllerSession(*std::move(link), options));
  if (auto greeted = out->greet(); !greeted) return greeted.error();
  return out;
}

ControllerSession::~ControllerSession() {
  const auto turn = turns_.take("the end of the controller");
  if (turn) return;
  fmt::print(stderr, "lockstep: {}\n", turn.error().text());
  std::_Exit(exit_code(turn.error().code));
}

Result<void> ControllerSession::greet() {
  link_->send(encode(Command(Hello{})));
  const std::string what = "the greeting";
  while (!answer_) {
    if (auto waited = wait(what); !waited) return waited.error();
  }
  const Reply told = *std::exchange(answer_, std::nullopt);
  if (const auto* refused = std::get_if<Refused>(&told)) return refused->why;
  const auto* held = std::get_if<Held>(&told);
  if (held == nullptr) return internal_error("worker 0 does not greet back");
  held_ = *held;
  next_ = held_.next;
  calls_ = held_.calls;
  return {};
}

void ControllerSession::hear(Reply reply) {
  if (std::holds_alternative<Alive>(reply)) return;
  if (const auto* progress = std::get_if<CommandsDone>(&reply)) {
    for (; done_ < progress->done && !on_their_way_.empty(); ++done_) {
      bytes_ -= on_their_way_.front().bytes;
      on_their_way_.pop_front();
    }
  } else if (auto* failed = std::get_if<Failed>(&reply)) {
    if (!failed_) failed_ = std::move(failed->why);
  } else if (auto* verdict = std::get_if<Verdict>(&reply)) {
    if (!over_) over_ = std::move(verdict->why);
  } else if (const auto* asked = std::get_if<TraceRequest>(&reply)) {
    const auto found = tracers_.find(asked->frame);
    TraceAnswer answer{asked->number, {}, {}, {}};
    tracing_ = true;
    if (found != tracers_.end())
      answer = found->second(*asked);
    else
      answer.failure = Status{Code::TraceError,
                              "the controller does not have the function of the frame; it makes "
                              "the frame before others call it"};
    tracing_ = false;
    link_->send(encode(Command(std::move(answer))));
  } else {
    take_answer(std::move(reply));
  }
}

/// Answers arrive in the order of the questions, those of interrupted waits first.
void ControllerSession::take_answer(Reply reply) {
  if (interrupted_questions_.empty()) {
    answer_ = std::move(reply);
    return;
  }
  const Handle first = interrupted_questions_.front();
  interrupted_questions_.pop_front();
  if (const auto* called = std::get_if<Called>(&reply))
    for (std::size_t i = 0; i < called->outputs.size(); ++i) dropped_->add(after(first, i));
}

void ControllerSession::listen() {
  for (Reply& reply : link_->take()) hear(std::move(reply));
  if (link_->ended() && !over_) over_ = *link_->ended();
}

Result<void> ControllerSession::wait(const std::string& what) {
  if (!over_) {
    const Instant since = std::max(link_->heard(), Instant{0});
    const Duration left = since + options_.deadline - clock_.now();
    if (left > Duration{0})
      link_->wait(options_.interrupted ? std::min(left, kInterruptPollInterval) : left);
    listen();
  }
  if (answer_) return {};
  if (over_) return *over_;
  if (interrupted())
    return Status{Code::Gone, fmt::format("the wait for {} was interrupted; what the workers were "
                                          "told goes on",
                                          what)};
  if (clock_.now() - link_->heard() < options_.deadline) return {};
  over_ = Status{
      Code::Stuck,
      fmt::format(
          "worker 0 at {} has not been heard of for {:g} s, while the controller waits for "
          "{}{}; it may be suspended, or its machine gone",
          link_->endpoint().text(), std::chrono::duration<double>(options_.deadline).count(),
          on_their_way_.empty() ? what : on_their_way_.front().what,
          on_their_way_.size() < 2 ? ""
                                   : fmt::format(" and {} behind it", on_their_way_.size() - 1))};
  return *over_;
}

bool ControllerSession::interrupted() {
  const Instant now = clock_.now();
  if (!options_.interrupted || now - asked_ < kInterruptPollInterval) return false;
  asked_ = now;
  return options_.interrupted();
}

std::optional<Status> ControllerSession::failure() { return std::exchange(failed_, std::nullopt); }

void ControllerSession::send(const Command& command, std::string what) {
  const Bytes bytes = encode(command);
  on_their_way_.push_back({std::move(what), bytes.size()});
  bytes_ += bytes.size();
  link_->send(bytes);
}

Result<void> ControllerSession::give(Command command, const std::string& what) {
  if (tracing_)
    return bad_input(
        fmt::format("a traced function asks the controller for {}; a function computes "
                    "with its inputs only",
                    what));
  link_->poll();
  listen();
  while (full() && !over_) {
    if (auto waited = wait(what); !waited) return waited.error();
  }
  if (over_) return *over_;
  if (auto failed = failure()) return *failed;
  if (auto dropped = dropped_->take_all(); !dropped.empty())
    send(DropHandles{std::move(dropped)}, "handles to be dropped");
  send(command, what);
  link_->poll();
  return {};
}

}  // namespace lockstep::worker
