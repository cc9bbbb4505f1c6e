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
  /// Number of the call of the frame, counted per group from 0, as scenarios and users count. For
  /// texts only: after a call in which ranks were in different frames it differs between them.
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
  /// The frame's, if it is not the job's.
  std::optional<Consistency> consistency{};
  /// The frame's other options, which each rank states for itself; may be empty.
  std::string options{};
  /// The frame made before this one, among those whose calls the group agrees on; empty: none.
  std::string after{};
  /// Key text of the call that was agreed on ahead and that this rank is still to make; may be
  /// empty. A rank that skipped it is in no round with ranks that made it.
  std::string pending_call{};
  std::uint64_t pending_round = 0;  // of that call
  /// Hash of all but `call` and the text in `pending_call`. Stable across ranks and builds; no
  /// allocation.
  [[nodiscard]] std::uint64_t hash() const;
  /// "call 7 of train_step", with the kind of round, epoch, group and attempt if they are not the
  /// first.
  [[nodiscard]] std::string text() const;
  /// text() with the number of the round in place of the call's, or behind the kind if text() has
  /// no number: equal on ranks in one round, and on no others. A resync has no number: ranks that
  /// have counted differently meet in it.
  [[nodiscard]] std::string round_text() const;
  /// Makes a rank's text() from its round_text() and, if it is not the round's, the number of its
  /// call.
  [[nodiscard]] static std::string text_of(std::string round_text, std::optional<std::string> call);
  bool operator==(const RoundKey&) const = default;

 private:
  [[nodiscard]] std::string text(std::uint64_t number, bool always) const;
};

}  // namespace lockstep::worker
