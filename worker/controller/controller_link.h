// The controller's connection to worker 0: sockets and time. It makes progress only in send(),
// poll() and wait(), which the caller calls.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>
#include <lockstep/worker/controller/messages/reply.h>

namespace lockstep::worker {

/// Interval at which a wait calls `interrupted`.
inline constexpr Duration kInterruptPollInterval = std::chrono::milliseconds(50);

/// One connection, from start to end. Single-threaded.
class ControllerLink {
 public:
  /// Connects and proves the secret. `interrupted`, if given, may end the wait. Errors: Environment
  /// (nobody listens there), Version (another secret or protocol), Stuck (no answer within
  /// `patience`), Gone (interrupted).
  [[nodiscard]] static Result<std::unique_ptr<ControllerLink>> open(
      const collectives::Endpoint& to, collectives::Secret secret, Duration patience,
      const std::function<bool()>& interrupted = {});
  ~ControllerLink();
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  /// Sends what the other side accepts now; poll() and wait() send the rest.
  void send(std::span<const std::byte> message);
  /// Sends and receives what is possible now. Never waits.
  void poll();
  /// Sends and receives until a reply has arrived, the connection has ended, or `patience` is over.
  void wait(Duration patience);
  /// Returns the replies received since the last call, in order.
  [[nodiscard]] std::vector<Reply> take();
  /// Why the connection has ended; nullopt while it is open.
  [[nodiscard]] const std::optional<Status>& ended() const;
  /// Time at which bytes from worker 0 last arrived.
  [[nodiscard]] Instant heard() const;
  [[nodiscard]] const collectives::Endpoint& endpoint() const;

 private:
  struct Socket;
  explicit ControllerLink(std::unique_ptr<Socket> socket);
  std::unique_ptr<Socket> socket_;
};

}  // namespace lockstep::worker
