// Names one round of votes: two ranks with different keys are not in the same round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/worker/exchange/consistency.h>

namespace lockstep::worker {

/// Identifies a round. Hashed into every vote.
struct RoundKey {
  std::uint64_t epoch = 0;
  std::string group, frame;
  std::uint64_t round = 0;  // counted per group
  /// Of the calls of the frame, counted per group from 0, as scenarios and users count; for texts
  /// alone: after a call that the ranks made of different frames it differs between them.
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
    Load
  };
  Kind kind = Kind::Call;
  /// Of the frame, where it is not that of the job.
  std::optional<Consistency> consistency{};
  /// What else its calls depend on that each rank states for itself; may be empty.
  std::string options{};
  /// The frame that was made before it, of those whose calls the group agrees on; empty: none.
  std::string after{};
  /// The call (its key's text) that was agreed on ahead and is still to be made by this rank; may
  /// be empty. A rank that has left it out is in no round with those that have made it.
  std::string pending_call{};
  std::uint64_t pending_round = 0;  // of that call
  /// Of all but `call` and `pending_call`. Stable across ranks and builds; no allocation.
  [[nodiscard]] std::uint64_t hash() const;
  /// "call 7 of train_step", with the kind of round, epoch, group and attempt where they are not
  /// the first.
  [[nodiscard]] std::string text() const;
  /// The same with the number of the round in place of the call's, or behind the kind where text()
  /// has no number: equal on ranks in one round, and on no others. A resync has none: it takes in
  /// ranks that have counted differently.
  [[nodiscard]] std::string round_text() const;
  /// text() of a rank by what round_text() gives there and by its number of the call, where that is
  /// another than the round's.
  [[nodiscard]] static std::string text_of(std::string round_text, std::optional<std::string> call);
  bool operator==(const RoundKey&) const = default;

 private:
  [[nodiscard]] std::string text(std::uint64_t number, bool always) const;
};

}  // namespace lockstep::worker
