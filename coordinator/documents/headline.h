// How a job stands, in one word and one sentence: what is shown before all else.
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
    Waiting,   // some wait for others, or for ranks that have not come
    Diverged,  // the last that was told is an error: ranks disagree
    Failed,    // or one failed, and all heard of it
    Stuck,     // as found: stuck, a ring, hung, or silent
    Lost,
  };
  Word word = Word::Ok;
  std::string sentence;
};
[[nodiscard]] std::string_view word_text(Headline::Word word);

/// What the ranks' watchdogs end the job with comes first. An error that ranks told is what stands there while the job has not gone on for a minute after
/// it, and for good where no rank is left. `findings` and `operations` are those of the job, now.
[[nodiscard]] Headline headline(const WatchedJob& job, const std::vector<Finding>& findings,
                                const std::vector<Operation>& operations, Instant now);

}  // namespace lockstep::coordinator
