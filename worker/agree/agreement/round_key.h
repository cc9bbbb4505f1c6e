// Names one round of votes: two ranks with different keys are not in the same round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/worker/agree/exchange/consistency.h>

namespace lockstep::worker {

/// Identifies a round. Hashed into every vote.
struct RoundKey {
  std::uint64_t epoch = 0;
  std::string group, frame;
  std::uint64_t round = 0;  // counted per group
  /// Number of the frame's call in the group, from 0, as scenarios and users count. Used in texts
  /// only: it differs between ranks after a call in which they were in different frames.
  std::uint64_t call = 0;
  std::uint32_t attempt = 0;
  enum class Kind : std::uint8_t {
    Call,
    Verify,
    Commit,
    Close,
    Settle,
    More,
    Finish,
    Start,
    Witness,
    Audit,
    Group,
    Resync,
    Uniform,
    Captures,
    Share,
    Load,
    Words
  };
  Kind kind = Kind::Call;
  /// Consistency of the frame, if it is not the job's.
  std::optional<Consistency> consistency{};
  /// The frame's other options, which each rank states for itself; may be empty.
  std::string options{};
  /// The frame made before this one, among the frames whose calls the group agrees on; may be
  /// empty.
  std::string after{};
  /// Key text of the call that was agreed on ahead and that this rank is still to make; may be
  /// empty. A rank that skipped it is in no round with ranks that made it.
  std::string pending_call{};
  std::uint64_t pending_round = 0;  // round of that call
  /// The user's line that makes this round ("serve.py:41"), if known. Used in texts only.
  std::string where{};
  /// Hash of all but `call`, `where` and the text in `pending_call`. Stable across ranks and
  /// builds; no allocation.
  [[nodiscard]] std::uint64_t hash() const;
  /// "call 7 of train_step", with kind of round, group, attempt, consistency and epoch where they
  /// are not the defaults.
  [[nodiscard]] std::string text() const;
  /// text() with the number of the round in place of the call's, or after the kind if text() has no
  /// number. Equal on ranks in one round, and on no others. A resync has no number, so that ranks
  /// with different counts meet in it.
  [[nodiscard]] std::string round_text() const;
  /// Makes a rank's text() from its round_text(). `call`: the number of its call, if that differs
  /// from the round's.
  [[nodiscard]] static std::string text_of(std::string round_text, std::optional<std::string> call);
  bool operator==(const RoundKey&) const = default;

 private:
  [[nodiscard]] std::string text(std::uint64_t number, bool always) const;
};

}  // namespace lockstep::worker
