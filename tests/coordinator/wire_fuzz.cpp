// libFuzzer target: no bytes from the network make the coordinator or a client crash, and what is
// read is written and read back as the same. The first byte picks what the rest is: bytes from a
// stranger, to either side; or, from somebody who has the secret, the type and the payload of a
// frame under key. Built where the compiler is clang; scripts/fuzz-coordinator runs it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <lockstep/coordinator/session.h>

using namespace lockstep;
using namespace lockstep::coordinator;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wire_fuzz: %s\n", what);
  std::abort();
}

Nonce nonce(std::uint8_t value) {
  Nonce out;
  out.fill(std::byte{value});
  return out;
}
const Secret kSecret(32, std::byte{42});

void from_a_stranger(Session::Side side, std::span<const std::byte> bytes, std::size_t step) {
  Session session(side, kSecret, nonce(1));
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(step, bytes.size()));
    bytes = bytes.subspan(part.size());
    const auto taken = session.take(part);
    require(taken.messages.empty(), "a stranger got through");
    require(!session.established(), "a stranger has proven to know the secret");
    if (taken.refusal) return;
  }
}

/// Both sides of a connection, the handshake done.
struct Pair {
  Session coordinator{Session::Side::Coordinator, kSecret, nonce(1)};
  Session client{Session::Side::Client, kSecret, nonce(2)};
  Pair() {
    (void)client.take(
        coordinator.take(client.take(coordinator.take(client.open()).reply).reply).reply);
    require(client.established() && coordinator.established(), "no handshake");
  }
};

void round_trip(FrameType type, std::span<const std::byte> payload) {
  const auto message = decode({type, Bytes(payload.begin(), payload.end())});
  if (!message) return;
  require(type_of(*message) == type, "a message of another type");
  const Bytes written = encode(*message);
  require(written.size() == payload.size(), "another length");
  const auto back = decode({type, written});
  require(back && *back == *message, "it is read back as another message");
  static Pair pair;  // its counters go on
  const bool up = static_cast<int>(type) < static_cast<int>(FrameType::Joined);
  const auto taken = up ? pair.coordinator.take(pair.client.seal(*message))
                        : pair.client.take(pair.coordinator.seal(*message));
  require(!taken.refusal && taken.messages.size() == 1 && taken.messages[0] == *message,
          "it did not come through");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  const std::size_t step = std::size_t{1} + data[1];
  switch (data[0] % 3) {
    case 0:
      from_a_stranger(Session::Side::Coordinator, rest, step);
      break;
    case 1:
      from_a_stranger(Session::Side::Client, rest, step);
      break;
    default:
      round_trip(FrameType{data[1]}, rest);
  }
  return 0;
}
