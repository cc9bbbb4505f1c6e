// A coordinator on a thread of the test, at a port of its own, and sockets to it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <lockstep/coordinator/messages/session.h>
#include <lockstep/coordinator/server/server.h>

namespace lockstep::coordinator {

/// The secret of all of these tests.
[[nodiscard]] Secret test_secret();

class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = {});
  ~RunningServer();
  [[nodiscard]] const Endpoint& endpoint() const { return server_->endpoint(); }
  /// A line that holds `part` has been said, or is within ten seconds.
  [[nodiscard]] bool says(const std::string& part);
  [[nodiscard]] std::vector<std::string> lines();

 private:
  std::unique_ptr<Server> server_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> lines_;
  std::thread thread_;
};

/// A blocking socket, without any of the manners of a client.
class RawSocket {
 public:
  /// `receive_buffer`: 0 leaves it to the system.
  explicit RawSocket(const Endpoint& to, int receive_buffer = 0);
  ~RawSocket();
  RawSocket(RawSocket&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  RawSocket(const RawSocket&) = delete;
  [[nodiscard]] bool connected() const { return file_ >= 0; }
  /// False where the other side has closed.
  bool write(std::span<const std::byte> bytes) const;
  /// What comes until the other side closes, ten seconds at most.
  [[nodiscard]] Bytes read_to_end() const;
  /// At least one byte; empty at the end, or after ten seconds.
  [[nodiscard]] Bytes read_some() const;
  /// The other side closes within this time; what it sends until then is thrown away.
  [[nodiscard]] bool closed_within(Duration time) const;

 private:
  int file_ = -1;
};

/// The handshake over it, as a client that knows the secret.
[[nodiscard]] bool shake_hands(const RawSocket& socket, Session& client);

}  // namespace lockstep::coordinator
