#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/workers/lead.h>

namespace lockstep::worker {

void Lead::collect(Duration wait) {
  for (LeadServer::Event& event : server_->take(wait)) {
    if (const auto* left = std::get_if<LeadServer::Left>(&event)) {
      left_ = true;
      why_left_ = left->why;
      alone_since_ = clock_.now();
    } else if (std::holds_alternative<LeadServer::Came>(event)) {
      left_ = false;
      alone_since_.reset();
    }
    events_.push_back(std::move(event));
  }
}

Lead::Next Lead::next(Duration wait) {
  if (events_.empty()) collect(wait);
  Next out;
  while (!events_.empty() && !out.came) {
    LeadServer::Event event = std::move(events_.front());
    events_.pop_front();
    if (auto* given = std::get_if<LeadServer::Given>(&event)) {
      // A trace answer that arrives too late is ignored.
      if (!std::holds_alternative<TraceAnswer>(given->command))
        out.commands.push_back(std::move(*given));
    } else if (const auto* came = std::get_if<LeadServer::Came>(&event)) {
      coming_ = came->controller;
      out.came = true;
    } else {
      gone_ = true;
    }
  }
  taken_ = out.commands.size();
  return out;
}

void Lead::done() {
  if (taken_ == 0) return;
  done_ += std::exchange(taken_, 0);
  send(CommandsDone{done_});
}

void Lead::greet(Held held) {
  controller_ = coming_;
  gone_ = false;
  done_ = 0;
  send(std::move(held));
}

std::optional<Bytes> Lead::trace_answer(std::uint64_t number, Duration wait) {
  const Instant until = clock_.now() + wait;
  std::size_t looked_at = 0;
  for (;;) {
    for (; looked_at < events_.size(); ++looked_at) {
      LeadServer::Event& event = events_[looked_at];
      if (std::holds_alternative<LeadServer::Left>(event)) return std::nullopt;
      auto* given = std::get_if<LeadServer::Given>(&event);
      const auto* answer = given != nullptr ? std::get_if<TraceAnswer>(&given->command) : nullptr;
      if (answer == nullptr || answer->number != number) continue;
      Bytes out = std::move(given->bytes);
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(looked_at));
      return out;
    }
    const Instant now = clock_.now();
    if (gone_ || now >= until) return std::nullopt;
    collect(until - now);
  }
}

std::optional<Status> Lead::given_up() const {
  if (!alone_since_ || clock_.now() - *alone_since_ < patience_) return std::nullopt;
  const double seconds = std::chrono::duration<double>(patience_).count();
  return Status{Code::Gone,
                left_ ? fmt::format("the controller has left ({}), and no other one came within "
                                    "{:g} s; the workers end",
                                    why_left_, seconds)
                      : fmt::format("no controller came within {:g} s; the workers end", seconds)};
}

}  // namespace lockstep::worker
