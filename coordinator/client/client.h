// One attempt at a connection to a coordinator: connects, proves the secret, exchanges messages.
// Whoever uses it drives it: nothing happens outside run_for().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/coordinator/speech/port_file.h>
#include <lockstep/coordinator/speech/session.h>

namespace lockstep::coordinator {

/// One thread.
class Client {
 public:
  /// Called within run_for(); the client must not be destroyed there.
  struct Events {
    std::function<void()> established;
    std::function<void(const Message&)> message;
    /// At most once, and nothing after it. Version (the secret, or the protocol), Environment
    /// (nobody listens, it broke off), RankLost (the other side closed the connection).
    std::function<void(const Status& why)> ended;
  };
  Client(const Endpoint& to, Secret secret, Events events);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Requires that it is established. Whoever sends only while idle() has at most one message wait.
  void send(const Message& message);
  /// All that was to be sent is.
  [[nodiscard]] bool idle() const;
  void run_for(Duration time);
  /// Ends run_for() early. From any thread.
  void interrupt();

 private:
  struct Link;
  std::unique_ptr<Link> link_;
};

}  // namespace lockstep::coordinator
