#include <limits>
#include <utility>

#include <lockstep/collectives/mpi_control.h>

namespace lockstep::collectives {
namespace {

constexpr int kFirstTag = 1, kBodyTag = 2;
constexpr std::uint64_t kMagic = 0x6C6F636B73746570;  // "lockstep"
// A header has this word twice, where a vote has its key and the key's complement: so no vote looks
// like a header.
constexpr std::uint64_t kMark = 0x7061796C6F616421;
constexpr std::uint64_t kVersion = 1;

}  // namespace

MpiControl::MpiControl(MPI_Comm comm, const RankSet& members, std::size_t longest)
    : comm_(comm), longest_(longest) {
  for (const Rank rank : members) names_.push_back(rank.value);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  self_ = names_.at(static_cast<std::size_t>(rank));
}

MpiControl::~MpiControl() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised) return;
  if (receive_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&receive_);
    MPI_Request_free(&receive_);
  }
  for (MPI_Request& send : sends_)
    if (send != MPI_REQUEST_NULL) MPI_Request_free(&send);
}

int MpiControl::post_send(Rank peer) {
  const std::span<const std::byte> body = round_->outgoing();
  if (bare())
    return MPI_Isend(body.data(), sizeof(Words), MPI_BYTE, peer.value, kFirstTag, comm_,
                     &sends_[0]);
  header_ = {kMagic, kMark, kMark, kVersion, body.size(), 0, 0, 0};
  const int rc =
      MPI_Isend(header_.data(), sizeof header_, MPI_BYTE, peer.value, kFirstTag, comm_, &sends_[0]);
  if (rc != MPI_SUCCESS || body.empty()) return rc;
  return MPI_Isend(body.data(), static_cast<int>(body.size()), MPI_BYTE, peer.value, kBodyTag,
                   comm_, &sends_[1]);
}

// Posts the receive first, so that a message finds its buffer.
int MpiControl::post(const Round::Want& want) {
  posted_ = true;
  in_body_ = false;
  receiving_ = want.need != Round::Need::Send;
  if (receiving_) {
    body_.clear();
    const int rc = MPI_Irecv(first_.data(), sizeof first_, MPI_BYTE, want.peer.value, kFirstTag,
                             comm_, &receive_);
    if (rc != MPI_SUCCESS) return rc;
  }
  return want.need == Round::Need::Receive ? MPI_SUCCESS : post_send(want.peer);
}

int MpiControl::on_first_message(const Round::Want& want, const MPI_Status& status) {
  const int peer = names_.at(static_cast<std::size_t>(want.peer.value));
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  const bool header = first_[0] == kMagic && first_[1] == kMark && first_[2] == kMark;
  const std::uint64_t length = bare() ? 0 : first_[4];
  const auto longest = std::min<std::uint64_t>(longest_, std::numeric_limits<int>::max());
  if (bytes != sizeof first_) {
    mismatch_ = internal_error(
        fmt::format("Rank {} sent {} bytes where a message has {}.", peer, bytes, sizeof first_));
  } else if (header == bare()) {
    mismatch_ = internal_error(fmt::format(
        "Rank {} is in {} while rank {} is in {}: they are not at the same "
        "point of the program.",
        peer, header ? "an exchange" : "a vote", self_, header ? "a vote" : "an exchange"));
  } else if (header && first_[3] != kVersion) {
    mismatch_ =
        Status{Code::Version,
               fmt::format("Rank {} speaks version {} of the control messages, rank {} version "
                           "{}; start all ranks with one build.",
                           peer, first_[3], self_, kVersion)};
  } else if (length > longest) {
    mismatch_ = internal_error(
        fmt::format("Rank {} announces a payload of {} bytes; at most {} are believed.", peer,
                    length, longest));
  } else if (length > 0) {
    body_.resize(length);
    in_body_ = true;
    return MPI_Irecv(body_.data(), static_cast<int>(length), MPI_BYTE, want.peer.value, kBodyTag,
                     comm_, &receive_);
  }
  if (receive_ == MPI_REQUEST_NULL) receiving_ = false;
  return MPI_SUCCESS;
}

int MpiControl::test(const Round::Want& want, bool& done) {
  MPI_Status status;
  int ended = 0;
  while (receiving_) {
    if (const int rc = MPI_Test(&receive_, &ended, &status); rc != MPI_SUCCESS || !ended) return rc;
    if (in_body_) {
      receiving_ = false;
    } else if (const int rc = on_first_message(want, status); rc != MPI_SUCCESS) {
      return rc;
    }
  }
  for (MPI_Request& send : sends_) {
    if (send == MPI_REQUEST_NULL) continue;
    if (const int rc = MPI_Test(&send, &ended, MPI_STATUS_IGNORE); rc != MPI_SUCCESS || !ended)
      return rc;
  }
  done = true;
  return MPI_SUCCESS;
}

Result<bool> MpiControl::advance() {
  while (round_ != nullptr) {
    const Round::Want want = round_->want();
    if (want.need == Round::Need::Done) {
      round_ = nullptr;
      break;
    }
    bool done = false;
    int rc = posted_ ? MPI_SUCCESS : post(want);
    if (rc == MPI_SUCCESS) rc = test(want, done);
    if (rc != MPI_SUCCESS) {
      transport_failed_ = true;
      return internal_error(mpi_failure("A control message of MPI", rc));
    }
    if (mismatch_) return *mismatch_;
    if (!done) return false;
    posted_ = false;
    if (want.need == Round::Need::Send)
      round_->sent();
    else
      round_->received(bare() ? std::as_bytes(std::span(first_))
                              : std::span<const std::byte>(body_));
  }
  return true;
}

}  // namespace lockstep::collectives
