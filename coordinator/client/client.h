// One attempt at a connection to a coordinator: connects, proves the secret, exchanges messages.
// All work is done within run_for(), which the caller calls again and again.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/coordinator/messages/session.h>

namespace lockstep::coordinator {

/// Single-threaded.
class Client {
 public:
  /// Callbacks, called within run_for(); they must not destroy the client.
  struct Events {
    std::function<void()> established;
    std::function<void(const Message&)> message;
    /// Called at most once, and last. `why` is Version (another secret or protocol), Environment
    /// (no coordinator listens, or the connection failed) or RankLost (the other side closed the
    /// connection).
    std::function<void(const Status& why)> ended;
  };
  Client(const Endpoint& to, Secret secret, Events events);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Requires an established connection. A caller that sends only while idle() has at most one
  /// message waiting.
  void send(const Message& message);
  /// True if everything has been sent.
  [[nodiscard]] bool idle() const;
  void run_for(Duration time);
  /// Ends run_for() early. From any thread.
  void interrupt();

 private:
  struct Link;
  std::unique_ptr<Link> link_;
};

}  // namespace lockstep::coordinator
