// Which work on the streams of an emulated device comes before which, as CUDA's rules say, whatever
// order it happens to be done in; and so whether two streams use the same memory in no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Vector clocks. Streams are numbered from 0. One thread at a time.
class AccessOrder {
 public:
  struct Access {
    std::uint64_t at = 0;
    std::size_t bytes = 0;
    bool writes = false;
  };
  /// Per stream, how much of it comes before.
  using Time = std::vector<std::uint64_t>;

  int add_stream();
  /// The next work of a stream. Empty: all that it has memory in common with, where one of both
  /// writes, comes before it; else which does not.
  [[nodiscard]] std::string put(int stream, std::span<const Access> accesses);
  /// Memory that was not there before; it may be where other memory was.
  void made(int stream, std::uint64_t at, std::size_t bytes);
  [[nodiscard]] Time now(int stream) const;
  /// What is put on the stream from here on comes after that.
  void follow(int stream, const Time& time);
  /// What is put on any stream from here on comes after all that is on this one.
  void waited_for(int stream);

 private:
  struct Done {
    Access access;
    int stream = 0;
    std::uint64_t time = 0;
  };
  [[nodiscard]] bool comes_before(const Done& done, const Time& time) const;

  std::vector<Time> now_;  // per stream
  Time host_;
  std::vector<Done> done_;  // that the host has not waited for
};

}  // namespace lockstep
