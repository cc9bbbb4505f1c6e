// The control plane of the MPI backend: moves one round's messages with nonblocking point-to-point
// calls. Used by mpi.cpp only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/mpi_call.h>
#include <lockstep/collectives/round.h>

namespace lockstep::collectives {

/// Runs one Round at a time. Used by one thread.
///
/// On the wire, tag 1 carries messages of 64 bytes: a bare message of a round whose messages all
/// have that length, or the header {magic, mark, mark, version, length, 0, 0, 0} of a longer
/// message. Tag 2 carries the body that follows a header. So a rank in a vote and a rank in an
/// exchange see at the first message that they are not in the same round.
class MpiControl {
 public:
  /// `members`: the numbers by which errors name the ranks, in the order of `comm`.
  MpiControl(MPI_Comm comm, const RankSet& members, std::size_t longest);
  ~MpiControl();
  MpiControl(const MpiControl&) = delete;
  MpiControl& operator=(const MpiControl&) = delete;

  /// Requires that no round is under way.
  void start(Round& round) { round_ = &round; }
  [[nodiscard]] bool under_way() const { return round_ != nullptr; }
  /// Advances as far as possible; true when the round has ended. Errors: Internal (MPI failed, or
  /// the peer's message is not of this round), Version. After an error the communicator is
  /// unusable.
  [[nodiscard]] Result<bool> advance();
  /// True if the error of advance() was MPI's own.
  [[nodiscard]] bool transport_failed() const { return transport_failed_; }

 private:
  using Words = std::array<std::uint64_t, 8>;
  [[nodiscard]] bool bare() const { return round_->message_bytes() == sizeof(Words); }
  [[nodiscard]] int post(const Round::Want& want);
  [[nodiscard]] int post_send(Rank peer);
  /// Returns MPI's code; sets `done` once both directions have ended.
  [[nodiscard]] int test(const Round::Want& want, bool& done);
  [[nodiscard]] int on_first_message(const Round::Want& want, const MPI_Status& status);

  MPI_Comm comm_;
  std::vector<int> names_;  // numbers by which errors name the ranks, by rank
  int self_ = 0;            // this rank's number in errors
  std::size_t longest_;
  Round* round_ = nullptr;
  bool posted_ = false, receiving_ = false, in_body_ = false, transport_failed_ = false;
  Words first_{}, header_{};
  Bytes body_;
  std::array<MPI_Request, 2> sends_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::optional<Status> mismatch_;
};

}  // namespace lockstep::collectives
