// What the ranks of one host say to each other in memory that they share: a ring for each that
// writes and each that reads. Used by tcp_mesh.cpp.
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

/// The rings of one rank. Ranks are numbered by their place on the host. One thread at a time.
class HostRings {
 public:
  /// New rings of `ranks`, and the name by which the other ranks open them.
  /// Errors: Environment (no shared memory to be had).
  [[nodiscard]] static Result<std::unique_ptr<HostRings>> create(int ranks, int self,
                                                                 std::string& name);
  /// Errors: Environment (no such memory, or of another job).
  [[nodiscard]] static Result<std::unique_ptr<HostRings>> open(const std::string& name, int ranks,
                                                               int self);

  /// A ring to `reader`, made at first use; false, from then on, where there is no memory for it.
  [[nodiscard]] bool reaches(int reader);
  /// Takes a piece of a message of `total` bytes as a whole; see Part. Requires reaches(reader).
  /// Behind what waits for room, in order. True: the reader sleeps, and has to be woken.
  bool send(int reader, std::uint64_t group, Part::Kind kind, std::uint64_t total,
            std::span<const std::byte> piece);
  /// Bytes for `reader` that its ring has had no room for yet.
  [[nodiscard]] std::size_t waiting(int reader) const;
  /// Something waits for room; nobody is woken when there is some.
  [[nodiscard]] bool full() const { return full_ > 0; }
  /// Writes what waits, as far as there is room; calls `wake` for readers that sleep.
  void flush(const std::function<void(int reader)>& wake);

  /// `writer` has written something that receive() has not given yet.
  [[nodiscard]] bool written(int writer);
  using Sink = std::function<void(Part part)>;
  /// Gives what `writer` has written to `sink`. False: it has written what is no message.
  [[nodiscard]] bool receive(int writer, const Sink& sink);
  /// Before this rank sleeps: from here on send() tells writers to wake it. False: something has
  /// been written already.
  [[nodiscard]] bool sleeps();
  void wakes();

 private:
  struct Layout;
  struct Line {
    enum class State : std::uint8_t { Unknown, Open, None } state = State::Unknown;
    RingWriter ring;
    std::deque<Bytes> waiting;  // messages
    std::size_t bytes = 0;      // of them
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
  std::size_t full_ = 0;         // lines where something waits
};

}  // namespace lockstep::collectives
