// Digests of tensors: 128 bits of XXH3. They find damage of any kind; they are no defence against
// somebody who changes files on purpose, who could change the digests too.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lockstep::worker {

/// Takes bytes in parts of any length; the digest does not depend on how they were cut. One thread.
class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  /// 32 lower-case hexadecimal digits, of the bytes so far.
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
