// The controller's connection to worker 0: sockets and time. It works only within poll() and
// wait(), which its user calls.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>
#include <lockstep/worker/controller/speech/reply.h>

namespace lockstep::worker {

/// How often whoever waits is asked whether to go on.
inline constexpr Duration kBetweenQuestions = std::chrono::milliseconds(50);

/// One connection, from its start to its end. One thread.
class ControllerLink {
 public:
  /// Connects and proves the secret. `interrupted`, where it is given, may end the wait. Errors:
  /// Environment (nobody listens there), Version (another secret or protocol), Stuck (no answer
  /// within `patience`), Gone (interrupted).
  [[nodiscard]] static Result<std::unique_ptr<ControllerLink>> open(
      const collectives::Endpoint& to, collectives::Secret secret, Duration patience,
      const std::function<bool()>& interrupted = {});
  ~ControllerLink();
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  /// Goes out as far as the other side takes it; the rest within poll() and wait().
  void send(std::span<const std::byte> message);
  /// Moves what can be moved; never waits.
  void poll();
  /// Moves until something has come, or the connection has ended, or the time is over.
  void wait(Duration patience);
  /// The replies that have come since, in order.
  [[nodiscard]] std::vector<Reply> take();
  /// Why the connection has ended; nullopt: it has not.
  [[nodiscard]] const std::optional<Status>& ended() const;
  /// When worker 0 was last heard of.
  [[nodiscard]] Instant heard() const;
  [[nodiscard]] const collectives::Endpoint& endpoint() const;

 private:
  struct Socket;
  explicit ControllerLink(std::unique_ptr<Socket> socket);
  std::unique_ptr<Socket> socket_;
};

}  // namespace lockstep::worker
