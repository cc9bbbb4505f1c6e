// The answers over HTTP: the status page, and documents for other programs.
#pragma once

#include <lockstep/coordinator/server/http_answer.h>
#include <lockstep/coordinator/server/metrics.h>

namespace lockstep::coordinator {

/// The state to show, as of one moment.
struct ServerView {
  const Service& service;
  const EventLog& event_log;
  const RejectedFrames& rejected;
  const About& about;
  Instant now{0};
  WallTime wall{};
};

/// The answer for a resource; for Updates, the head of the stream and its first event.
[[nodiscard]] HttpAnswer website(Resource resource, const ServerView& sight);
/// The answer 503: too many connections.
[[nodiscard]] HttpAnswer unavailable(std::string message);

}  // namespace lockstep::coordinator
