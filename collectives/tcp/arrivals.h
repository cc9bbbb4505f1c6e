// Who has come to the rendezvous of a job that no launcher started, as a pure state machine: no
// socket, no clock. Rank 0 drives it (tcp_meeting.cpp).
#pragma once

#include <map>
#include <optional>

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// The process that hosts the rendezvous, and those that have come to it. One thread.
class Arrivals {
 public:
  /// Requires that `host` is a rank of its job.
  explicit Arrivals(Arrival host) : host_(std::move(host)) {}

  struct Answer {
    std::optional<Status> refusal;  // none: it has come
    bool ends_all = false;          // no process of this job can be started like that
  };
  /// `at` is the address that it came from. Refused with BadInput: of another job, no rank of it, a
  /// rank that has come already; with Version: other messages. It ends the meeting for all where a
  /// rank of this job has another build (Version) or another world size (BadInput).
  [[nodiscard]] Answer come(const Arrival& arrival, const std::string& at);
  /// Its connection has ended before all had come: it may come again.
  void gone(Rank rank) { came_.erase(rank.value); }

  [[nodiscard]] RankSet missing() const;
  /// By rank. Requires that nobody is missing.
  [[nodiscard]] std::vector<Peer> roster() const;

 private:
  struct Guest {
    Arrival arrival;
    std::string address;
  };
  Arrival host_;
  std::map<std::int32_t, Guest> came_;  // without the host
};

}  // namespace lockstep::collectives
