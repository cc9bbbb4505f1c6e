#include <lockstep/worker/tensor/graph/philox.h>

namespace lockstep::worker {
namespace {

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox_words(std::array<std::uint32_t, 4> counter,
                                          std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xcd9e8d57} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

std::int64_t philox(std::int64_t key, std::int64_t counter, std::int64_t stream) {
  const auto k = static_cast<std::uint64_t>(key), c = static_cast<std::uint64_t>(counter),
             s = static_cast<std::uint64_t>(stream);
  const auto words = philox_words({low(c), high(c), low(s), high(s)}, {low(k), high(k)});
  return static_cast<std::int64_t>(std::uint64_t{words[1]} << 32 | words[0]);
}

}  // namespace lockstep::worker
