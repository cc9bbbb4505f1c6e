// The state of a job in one word and one sentence, for the top of the status page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

struct Headline {
  enum class Word : std::uint8_t {
    Ok,
    Ended,     // all ranks have finished
    Waiting,   // ranks wait for other ranks, or for ranks that have not joined
    Diverged,  // the latest reported call is an error: ranks disagree
    Failed,    // the latest reported call is an error: a rank failed
    Stuck,     // findings: stuck, a ring, hung, or silent
    Lost,
  };
  Word word = Word::Ok;
  std::string sentence;
};
[[nodiscard]] std::string_view word_text(Headline::Word word);

/// The headline of a job. A verdict with which the ranks' watchdogs end the job takes precedence. A
/// reported error stays the headline until the job has gone on for a minute, and for ever if no
/// rank is left. `findings` and `operations` are those of the job at `now`.
[[nodiscard]] Headline headline(const WatchedJob& job, const std::vector<Finding>& findings,
                                const std::vector<Operation>& operations, Instant now);

}  // namespace lockstep::coordinator
