#include <array>
#include <cassert>
#include <utility>

#include <lockstep/collectives/wire/sealed_message.h>

namespace lockstep::collectives {
namespace {

constexpr std::uint32_t kMagic = 0x43534B4C;  // "LKSC"

Bytes assembled(std::uint8_t type, std::span<const std::byte> payload, std::uint64_t counter) {
  ByteWriter writer;
  writer.u32(kMagic);
  writer.u8(kProtocolVersion);
  writer.u8(type);
  writer.u8(0);
  writer.u8(0);
  writer.u32(static_cast<std::uint32_t>(payload.size()));
  writer.u64(counter);
  Bytes out = std::move(writer).take();
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

struct Header {
  std::uint8_t type = 0;
  std::size_t length = 0;
  std::uint64_t counter = 0;
};

Header read_header(std::span<const std::byte> bytes) {
  ByteReader reader(bytes.subspan(5));
  Header header;
  header.type = reader.u8();
  reader.u8();
  reader.u8();
  header.length = reader.u32();
  header.counter = reader.u64();
  return header;
}

}  // namespace

std::string_view refusal_text(Refusal refusal) {
  constexpr std::array<std::string_view, kRefusals> kTexts{
      "it was refused for a reason that this version does not know",
      "what came is not lockstep's protocol",
      "it speaks another version of lockstep's protocol",
      "a message was longer than allowed",
      "a message was altered on its way",
      "a message came twice or out of order",
      "a message came where it has no place",
      "a message could not be read",
      "the two do not have the same secret",
      "one of the two encrypts and the other does not: LOCKSTEP_ENCRYPTION has to be the same"};
  const auto at = static_cast<std::size_t>(refusal);
  return kTexts[at < kTexts.size() ? at : 0];
}

Bytes SealedMessageWriter::plain(HandshakeType type, std::span<const std::byte> payload) {
  assert(payload.size() <= kPlainPayloadBytes);
  return assembled(static_cast<std::uint8_t>(type), payload, 0);
}

Bytes SealedMessageWriter::sealed(std::uint8_t type, std::span<const std::byte> payload) {
  assert(payload.size() <= kSealedPayloadBytes);
  Bytes out = assembled(type, payload, counter_++);
  if (!key_) return out;
  const Mac mac = key_->of(out);
  out.insert(out.end(), mac.begin(), mac.end());
  return out;
}

void SealedMessageReader::put(std::span<const std::byte> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

/// Checks the header bytes received so far; foreign data is refused at its first wrong byte.
std::optional<Refusal> SealedMessageReader::wrong_header(std::span<const std::byte> header) const {
  for (std::size_t i = 0; i < std::min<std::size_t>(4, header.size()); ++i)
    if (std::to_integer<std::uint32_t>(header[i]) != ((kMagic >> (8 * i)) & 0xFF))
      return Refusal::Magic;
  if (header.size() > 4 && std::to_integer<std::uint8_t>(header[4]) != kProtocolVersion)
    return Refusal::Version;
  if (header.size() < kHeaderBytes) return std::nullopt;
  if (header[6] != std::byte{0} || header[7] != std::byte{0}) return Refusal::Malformed;
  if (read_header(header).length > (counted_ ? kSealedPayloadBytes : kPlainPayloadBytes))
    return Refusal::Size;
  return std::nullopt;
}

std::variant<std::optional<SealedMessage>, Refusal> SealedMessageReader::next() {
  if (refused_) return *refused_;
  const std::span<const std::byte> rest = std::span(buffer_).subspan(taken_);
  refused_ = wrong_header(rest.first(std::min(rest.size(), kHeaderBytes)));
  if (refused_) return *refused_;
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const Header header = read_header(rest);
  const std::size_t sealed = kHeaderBytes + header.length;
  const std::size_t whole = sealed + (key_ ? sizeof(Mac) : 0);
  if (rest.size() < whole) return std::nullopt;
  if (key_ && !same(key_->of(rest.first(sealed)), rest.subspan(sealed, sizeof(Mac))))
    refused_ = Refusal::Altered;
  else if (header.counter != counter_)
    refused_ = Refusal::Replay;
  if (refused_) return *refused_;
  if (counted_) ++counter_;
  const auto payload = rest.subspan(kHeaderBytes, header.length);
  taken_ += whole;
  return SealedMessage{header.type, Bytes(payload.begin(), payload.end())};
}

}  // namespace lockstep::collectives
