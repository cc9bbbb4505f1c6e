// Digests of tensors: 128 bits of XXH3. They find damage of any kind. They do not protect against
// deliberate changes: anyone who changes a file can change its digest too.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lockstep::worker {

/// Takes bytes in parts. How the bytes are split into parts does not change the digest.
/// Single-threaded.
class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  /// Digest of the bytes so far: 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Free> state_;
};

[[nodiscard]] std::string digest_of(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
