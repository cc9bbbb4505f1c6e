// Worker 0's listener for the controller: sockets and time, on a separate thread. So even while
// worker 0 is in a call, a second controller is refused, and the first one sees that worker 0 is
// alive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>
#include <lockstep/worker/controller/messages/reply.h>

namespace lockstep::worker {

struct LeadServerOptions {
  collectives::Endpoint listen;  // port 0: any free port
  collectives::Secret secret;
  /// Receives a sentence about each refused connection. Called on the server's thread.
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  /// Limits for connections that have not yet proved to be a controller's: their time, their
  /// number.
  Duration handshake = std::chrono::seconds(5);
  std::size_t most_strangers = 32;
  /// Time that a refused connection has to read the reason.
  Duration linger = std::chrono::seconds(1);
  /// Interval at which the controller is told that worker 0 is alive.
  Duration alive = std::chrono::seconds(1);
  /// Reading from the controller pauses while more bytes than this wait for take().
  std::size_t most_waiting = 2 * kMostMessageBytes;
};

/// Controllers are numbered from 1 as they connect; at most one is connected at a time.
class LeadServer {
 public:
  /// Starts to listen. Errors: Environment (the address is in use, or not of this machine).
  [[nodiscard]] static Result<std::unique_ptr<LeadServer>> listen(LeadServerOptions options);
  /// Sends what is queued, for at most a second.
  ~LeadServer();
  LeadServer(const LeadServer&) = delete;
  LeadServer& operator=(const LeadServer&) = delete;

  /// The address, with the actual port.
  [[nodiscard]] const collectives::Endpoint& endpoint() const;

  struct Came {
    std::uint64_t controller = 0;
  };
  struct Left {
    std::string why;
  };
  struct Given {
    Command command;
    Bytes bytes;  // the command as received
  };
  using Event = std::variant<Came, Left, Given>;
  /// Returns the events since the last call, in order; waits at most `patience` for one.
  [[nodiscard]] std::vector<Event> take(Duration patience);

  /// Sends `reply` to the controller of this number, unless it has left. Callable on any thread.
  void send(std::uint64_t controller, const Reply& reply);
  /// Sends the verdict to the controller, if any, before this process ends: waits up to 0.1 s until
  /// it is sent. Callable on any thread.
  void last_word(const Status& verdict);

 private:
  struct Loop;
  explicit LeadServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::worker
