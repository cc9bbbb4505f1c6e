// Messages between ranks of one host through shared memory: a ring for each pair of a writer and a
// reader. Used by TcpTraffic.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/collectives/base/shared_memory.h>
#include <lockstep/collectives/tcp/shared_ring.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// The rings of a host as one rank uses them. Ranks are numbered by their place on the host. Used
/// by one thread at a time.
class HostRings {
 public:
  /// Makes rings for `ranks` ranks; sets `name`, by which the other ranks open them.
  /// Errors: Environment (no shared memory available).
  [[nodiscard]] static Result<std::unique_ptr<HostRings>> create(int ranks, int self,
                                                                 std::string& name);
  /// Errors: Environment (there is no such memory, or it belongs to another job).
  [[nodiscard]] static Result<std::unique_ptr<HostRings>> open(const std::string& name, int ranks,
                                                               int self);

  /// True if there is a ring to `reader`; the first call makes the ring. If there is no memory for
  /// it, this and all later calls return false.
  [[nodiscard]] bool reaches(int reader);
  /// Sends a piece of a message of `total` bytes (see Part), after all earlier pieces. A piece that
  /// finds no room in the ring waits here. Requires reaches(reader). True: the reader sleeps, and
  /// the caller has to wake it.
  bool send(int reader, std::uint64_t group, Part::Kind kind, std::uint64_t total,
            std::span<const std::byte> piece);
  /// Number of bytes for `reader` for which its ring has no room yet.
  [[nodiscard]] std::size_t waiting(int reader) const;
  /// True if pieces wait for room. Nothing wakes this rank when there is room.
  [[nodiscard]] bool full() const { return full_ > 0; }
  /// Writes waiting pieces as far as there is room; calls `wake` for readers that sleep.
  void flush(const std::function<void(int reader)>& wake);

  /// True if `writer` has written something that receive() has not passed on yet.
  [[nodiscard]] bool written(int writer);
  using Sink = std::function<void(Part part)>;
  /// Passes to `sink` what `writer` has written. False: `writer` has written something that is no
  /// message.
  [[nodiscard]] bool receive(int writer, const Sink& sink);
  /// Called before this rank sleeps: from here on send() in a writer returns true. False: something
  /// is written already, so this rank must not sleep.
  [[nodiscard]] bool sleeps();
  void wakes();

 private:
  struct Layout;
  struct Line {
    enum class State : std::uint8_t { Unknown, Open, None } state = State::Unknown;
    RingWriter ring;
    std::deque<Bytes> waiting;  // messages
    std::size_t bytes = 0;      // in `waiting`
  };
  struct Source {
    bool open = false;
    RingReader ring;
  };
  HostRings(SharedMemory memory, int ranks, int self);
  [[nodiscard]] Layout layout() const;
  [[nodiscard]] RingReader* source(int writer);

  SharedMemory memory_;
  int ranks_, self_;
  std::vector<Line> lines_;      // by reader
  std::vector<Source> sources_;  // by writer
  std::size_t full_ = 0;         // lines with waiting messages
};

}  // namespace lockstep::collectives
