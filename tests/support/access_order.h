// The order of work on the streams of an emulated device by CUDA's rules, whatever order it is done
// in. Finds memory that two streams use without an order between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Vector clocks. Streams are numbered from 0. Used by one thread at a time.
class AccessOrder {
 public:
  struct Access {
    std::uint64_t at = 0;
    std::size_t bytes = 0;
    bool writes = false;
  };
  /// Per stream, the number of its works that come before.
  using Time = std::vector<std::uint64_t>;

  int add_stream();
  /// Adds the next work of a stream. Returns "" if all earlier work with memory in common, where
  /// one of the two writes, comes before it; otherwise names such work that does not.
  [[nodiscard]] std::string put(int stream, std::span<const Access> accesses);
  /// Reports newly allocated memory; it may be where other memory was.
  void made(int stream, std::uint64_t at, std::size_t bytes);
  [[nodiscard]] Time now(int stream) const;
  /// Work put on the stream from here on comes after `time`.
  void follow(int stream, const Time& time);
  /// Work put on any stream from here on comes after all work now on this stream.
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
  std::vector<Done> done_;  // works that the host has not waited for
};

}  // namespace lockstep
