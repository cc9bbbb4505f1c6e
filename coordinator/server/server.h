// The coordinator as a process runs it: sockets, time and limits around the service core. One
// thread, the caller's.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include <lockstep/coordinator/service/service.h>
#include <lockstep/coordinator/speech/port_file.h>

namespace lockstep::coordinator {

struct ServerOptions {
  Endpoint listen;  // port 0: any that is free
  Secret secret;
  std::string version;  // of the program, for the status document
  Rules rules;
  /// One line about a finding, or about a connection that was refused. On the thread of run().
  std::function<void(const std::string& line)> say;
  /// Directory of the history of jobs (history_store.h); empty: none is kept.
  std::string store;
  /// Findings that are not said; they are in the status document all the same.
  std::set<Finding::Kind> unsaid;
  /// What happened, as lines of JSON (event_line.h), at every look; may be empty.
  std::function<void(const std::string& lines)> record;
  /// SIGTERM and SIGINT end run().
  bool signals = true;
  /// Strangers that hold a connection and have not proven the secret: for so long, and so many at a
  /// time; where one more comes the oldest goes.
  Duration handshake = std::chrono::seconds(5);
  std::size_t most_strangers = 1024;
  std::size_t most_connections = 20'000;
  /// A reader that takes nothing for so long, or lets so much wait, is dropped.
  Duration slow_reader = std::chrono::seconds(5);
  std::size_t most_queued_bytes = 256 * 1024;
  /// A connection over which nothing has come for so long is closed: its machine may be gone.
  Duration idle = std::chrono::seconds(60);
};

/// Listens from listen() on; serves in run().
class Server {
 public:
  /// Errors: Environment (the address is taken or not this machine's).
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// With the port that it was given.
  [[nodiscard]] const Endpoint& endpoint() const;
  /// Until stop() or a signal.
  void run();
  /// From any thread.
  void stop();
  /// Ranks that are connected. From any thread.
  [[nodiscard]] std::size_t speakers() const;

 private:
  struct Loop;
  explicit Server(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::coordinator
