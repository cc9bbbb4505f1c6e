// A network that goes wrong, for tests: everything that this program connects to after the relay
// has been made goes through it (tcp_relay_connect.cpp), in this process and in those that it
// forks. What its streams carry is late, stalls, is cut off, is reset or gets lost, as a seed says.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::collectives {

/// One at a time. Works on a thread of its own.
class TcpRelay {
 public:
  explicit TcpRelay(std::uint64_t seed);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  [[nodiscard]] int port() const;
  /// Streams that were cut, reset, or lost what they carried, and that stalled.
  [[nodiscard]] int broken() const;
  [[nodiscard]] int stalled() const;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::collectives
