// What a rank of the simulation does, and where it stands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/lines/issuer.h>

namespace lockstep::tests {

using lines::Issued;
using lines::Needs;
using lines::Operation;

/// One operation of a rank's program.
struct Step {
  int group = 0;
  std::string kind, dtype = "f32", reduction;
  int root = -1;
  Needs needs = Needs::All;
  bool paired = false;
  std::vector<std::int64_t> elements, to, from;
  bool waits = true;    // for it, at once
  bool drains = false;  // then waits for all that it has not waited for

  [[nodiscard]] Operation operation() const {
    return {.kind = kind,
            .dtype = dtype,
            .reduction = reduction,
            .root = root,
            .needs = needs,
            .paired = paired,
            .elements = elements,
            .shape = elements,
            .to = to,
            .from = from};
  }
};

struct Flight {
  int group = 0;
  std::uint64_t number = 0;
  Needs needs = Needs::All;
  int root = -1;
  std::vector<std::int64_t> from;
};

/// A thread of a rank, and where it stands.
struct Thread {
  std::vector<Step> steps;
  std::size_t next = 0;
  enum class At { Step, Check, Issue, Wait } at = At::Step;
  Issued issued;
  std::vector<Flight> in_flight;  // not waited for
  std::vector<Flight> waited;     // of these the first, now
  bool has_issued = false, has_ended = false;
};

}  // namespace lockstep::tests
