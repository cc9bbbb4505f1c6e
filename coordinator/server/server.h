// The coordinator as a process runs it: the service with sockets, time and limits. Runs on one
// thread, the caller's.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

struct ServerOptions {
  Endpoint listen;  // port 0: any free port
  Secret secret;
  std::string version;  // version of the program, for the status document
  Rules rules;
  /// Receives a line about each finding and about refused connections. Called on the thread of
  /// run().
  std::function<void(const std::string& line)> say;
  /// Directory of the history of jobs (history_store.h); empty: no history is kept.
  std::string store;
  /// Kinds of findings that get no line; they are still in the status document.
  std::set<Finding::Kind> silenced_kinds;
  /// Receives new events as lines of JSON (event_line.h) at every look; may be null.
  std::function<void(const std::string& lines)> record;
  /// SIGTERM and SIGINT end run().
  bool signals = true;
  /// Limits for connections that have not proven the secret: the longest time, and the maximum
  /// number at a time. A further connection closes the oldest.
  Duration handshake = std::chrono::seconds(5);
  std::size_t most_strangers = 1024;
  std::size_t most_connections = 20'000;
  /// Limits past which a slow reader is dropped: time without taking bytes, and number of bytes
  /// that wait.
  Duration slow_reader = std::chrono::seconds(5);
  std::size_t most_queued_bytes = 256 * 1024;
  /// Time without received bytes after which a connection is closed: the other machine may be gone.
  Duration idle = std::chrono::seconds(60);
};

/// Listens from listen() on, and serves in run().
class Server {
 public:
  /// Errors: Environment (the address is in use, or is not an address of this machine).
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The address at which it listens, with the actual port.
  [[nodiscard]] const Endpoint& endpoint() const;
  /// Serves until stop() or a signal.
  void run();
  /// From any thread.
  void stop();
  /// The number of connected ranks. From any thread.
  [[nodiscard]] std::size_t speakers() const;

 private:
  struct Loop;
  explicit Server(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::coordinator
