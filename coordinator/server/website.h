// What the coordinator shows over HTTP: the page, and the documents for machines.
#pragma once

#include <lockstep/coordinator/server/http_answer.h>
#include <lockstep/coordinator/server/metrics.h>

namespace lockstep::coordinator {

/// What there is to show, at one moment.
struct Sight {
  const Service& service;
  const Chronicle& chronicle;
  const RejectedFrames& rejected;
  const About& about;
  Instant now{0};
  WallTime wall{};
};

/// Of Updates: the head of a stream, and the first of its events.
[[nodiscard]] HttpAnswer website(Resource resource, const Sight& sight);
/// There is no room for one more.
[[nodiscard]] HttpAnswer unavailable(std::string message);

}  // namespace lockstep::coordinator
