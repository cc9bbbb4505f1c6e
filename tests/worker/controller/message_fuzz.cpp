// libFuzzer target: any bytes are refused, or are a command or a reply that reads back as itself;
// any stream of sealed pieces is put together within its bound. Built where the compiler is clang;
// scripts/fuzz-controller runs it.
#include "../../support/fuzz_target.h"

#include <lockstep/worker/controller/messages/message_pieces.h>
#include <lockstep/worker/controller/messages/reply.h>

using namespace lockstep;
using namespace lockstep::worker;
using lockstep::fuzz::require;

namespace {

constexpr std::size_t kMost = 4096;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)greeted_version(bytes);
  if (const auto command = decode_command(bytes)) {
    const auto again = decode_command(encode(*command));
    require(again.has_value() && *again == *command, "another command");
    require(!command_name(*command).empty(), "a command without a name");
  }
  if (const auto reply = decode_reply(bytes)) {
    const Bytes written = encode(*reply);
    const auto again = decode_reply(written);
    require(again.has_value() && encode(*again) == written, "another reply");
  }
  // As pieces: a type, a length, and so many bytes each.
  PieceJoiner pieces(kMost);
  for (std::size_t at = 0; at + 2 <= size;) {
    const std::size_t length = std::min<std::size_t>(data[at + 1], size - at - 2);
    const auto part = bytes.subspan(at + 2, length);
    const auto taken = pieces.take({data[at], Bytes(part.begin(), part.end())});
    require(!taken.message || taken.message->size() <= kMost, "a message beyond the limit");
    if (taken.refusal) break;
    at += 2 + length;
  }
  return 0;
}
