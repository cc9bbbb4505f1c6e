// Sealed messages, byte by byte and against who does not play by the rules.
#include <cstring>

#include <gtest/gtest.h>

#include <lockstep/collectives/wire/sealed_message.h>

namespace lockstep::collectives::sealed_message_test {
namespace {

constexpr std::uint8_t kType = 17;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}
Refusal refusal_of(const std::variant<std::optional<SealedMessage>, Refusal>& next) {
  return std::holds_alternative<Refusal>(next) ? std::get<Refusal>(next) : Refusal{0};
}
bool has_message(const std::variant<std::optional<SealedMessage>, Refusal>& next) {
  return std::holds_alternative<std::optional<SealedMessage>>(next) &&
         std::get<std::optional<SealedMessage>>(next).has_value();
}

TEST(Hmac, IsThatOfTheStandard) {  // RFC 4231, cases 1, 2 and 6
  EXPECT_EQ(hex(hmac_sha256(Bytes(20, std::byte{0x0b}), bytes_of("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(Bytes(131, std::byte{0xaa}),
                            bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(SealedMessage, Layout_IsThatOfVersion2) {
  EXPECT_EQ(hex(SealedMessageWriter::plain(HandshakeType::Hello, bytes_of("ab"))),
            "4c4b5343"
            "02"
            "01"
            "0000"
            "02000000"
            "0000000000000000"
            "6162");
  SealedMessageWriter writer;
  Mac key{};
  writer.key(key);
  (void)writer.sealed(kType, {});
  const Bytes second = writer.sealed(kType, bytes_of("ab"));
  const std::string head =
      "4c4b5343"
      "02"
      "11"
      "0000"
      "02000000"
      "0100000000000000"
      "6162";
  EXPECT_EQ(hex(second).substr(0, head.size()), head);
  EXPECT_EQ(hex(second).substr(head.size()),
            hex(hmac_sha256(key, std::span(second).first(kHeaderBytes + 2))));
}

TEST(SealedMessage, LengthBeyondTheLimit_IsRefusedFromTheHeaderAlone) {
  Bytes header = SealedMessageWriter::plain(HandshakeType::Hello, {});
  for (const bool keyed : {false, true}) {
    for (const std::uint32_t length :
         {0xFFFFFFFFU, 0x80000000U, static_cast<std::uint32_t>(kSealedPayloadBytes + 1),
          static_cast<std::uint32_t>(keyed ? kSealedPayloadBytes : kPlainPayloadBytes)}) {
      std::memcpy(header.data() + 8, &length, 4);
      SealedMessageReader reader;
      if (keyed) reader.key(Mac{});
      reader.put(header);
      const bool allowed = length == (keyed ? kSealedPayloadBytes : kPlainPayloadBytes);
      EXPECT_EQ(refusal_of(reader.next()), allowed ? Refusal{0} : Refusal::Size) << length;
    }
  }
}

TEST(SealedMessage, OtherProtocolsAndVersions_AreRefusedAtTheFirstByteThatTells) {
  SealedMessageReader http;
  http.put(bytes_of("G"));
  EXPECT_EQ(refusal_of(http.next()), Refusal::Magic);
  SealedMessageReader later;
  Bytes header = SealedMessageWriter::plain(HandshakeType::Hello, {});
  header[4] = std::byte{kProtocolVersion + 1};
  later.put(std::span(header).first(5));
  EXPECT_EQ(refusal_of(later.next()), Refusal::Version);
  EXPECT_EQ(refusal_of(later.next()), Refusal::Version) << "again at every later call";
}

TEST(SealedMessage, EveryBitThatIsFlipped_IsSeen) {
  SealedMessageWriter writer;
  writer.key(Mac{});
  const Bytes sound = writer.sealed(kType, bytes_of(std::string(150, 'r')));
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    Bytes altered = sound;
    altered[bit / 8] ^= std::byte{static_cast<std::uint8_t>(1U << (bit % 8))};
    SealedMessageReader reader;
    reader.key(Mac{});
    reader.put(altered);
    EXPECT_FALSE(has_message(reader.next())) << "bit " << bit;
  }
}

TEST(SealedMessage, ReplayedOrReorderedFrame_IsRefused) {
  SealedMessageWriter writer;
  writer.key(Mac{});
  const Bytes first = writer.sealed(kType, {}), second = writer.sealed(kType, {});
  SealedMessageReader twice, swapped;
  twice.key(Mac{});
  twice.put(first);
  EXPECT_TRUE(has_message(twice.next()));
  twice.put(first);
  EXPECT_EQ(refusal_of(twice.next()), Refusal::Replay);
  swapped.key(Mac{});
  swapped.put(second);
  EXPECT_EQ(refusal_of(swapped.next()), Refusal::Replay);
}

}  // namespace
}  // namespace lockstep::collectives::sealed_message_test
