// Where worker 0 listens for the controller: sockets and time on a thread of its own, so that a
// second controller is refused, and the first one knows that the workers are there, while worker 0
// is in a call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>
#include <lockstep/worker/controller/speech/reply.h>

namespace lockstep::worker {

struct LeadServerOptions {
  collectives::Endpoint listen;  // port 0: any free port
  collectives::Secret secret;
  /// Receives a sentence about each connection that is refused. On the server's thread.
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  /// Limits for connections that are no controller's: how long, and how many at a time.
  Duration handshake = std::chrono::seconds(5);
  std::size_t most_strangers = 32;
  /// How long one that is refused may take to read why.
  Duration linger = std::chrono::seconds(1);
  /// How often the controller hears that worker 0 is there.
  Duration alive = std::chrono::seconds(1);
  /// No more is read while so many bytes wait to be taken.
  std::size_t most_waiting = 2 * kMostMessageBytes;
};

/// Controllers are counted from 1 as they come; at most one is there at a time.
class LeadServer {
 public:
  /// It listens from here on. Errors: Environment (the address is in use, or is not of this
  /// machine).
  [[nodiscard]] static Result<std::unique_ptr<LeadServer>> listen(LeadServerOptions options);
  /// Sends what is to be sent, for a second at most.
  ~LeadServer();
  LeadServer(const LeadServer&) = delete;
  LeadServer& operator=(const LeadServer&) = delete;

  /// The address, with the port in use.
  [[nodiscard]] const collectives::Endpoint& endpoint() const;

  struct Came {
    std::uint64_t controller = 0;
  };
  struct Left {
    std::string why;
  };
  struct Given {
    Command command;
    Bytes bytes;  // the same, as it came
  };
  using Event = std::variant<Came, Left, Given>;
  /// What has happened since, in order; waits so long for something.
  [[nodiscard]] std::vector<Event> take(Duration patience);

  /// To that controller; nothing is sent where it has left. Any thread.
  void send(std::uint64_t controller, const Reply& reply);
  /// To the controller that is there, before this process ends: waits a tenth of a second until it
  /// is sent. Any thread.
  void last_word(const Status& verdict);

 private:
  struct Loop;
  explicit LeadServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::worker
