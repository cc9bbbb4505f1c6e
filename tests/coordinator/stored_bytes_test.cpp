// What is stored comes back, or is refused with a reason before anything large is allocated.
#include <algorithm>
#include <new>
#include <random>

#include "largest_allocation.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/coordinator/store/archive.h>
#include <lockstep/coordinator/store/profile.h>

namespace lockstep::coordinator::stored_bytes_test {
namespace {

using shapes::Dynamism;

constexpr StoredKind kProfile{"profile", 2};

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

Bytes of_hex(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return out;
}

Dynamism tensor(const std::vector<std::int64_t>& sizes) { return Dynamism::of_tensor(sizes); }

KeptProfile example() {
  KeptProfile kept{"job 1", {"train_step", {5, 6}}, {}};
  kept.profile["n"] = {{3, 4}, Dynamism::of_int(-7)};
  kept.profile["x"] = {{1, 2}, join(tensor({4, 8}), tensor({5, 8}))};
  return kept;
}

std::string random_text(std::mt19937_64& random) {
  std::string text(random() % 20, ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

KeptProfile random_profile(std::mt19937_64& random) {
  KeptProfile kept{random_text(random), {random_text(random), {random(), random()}}, {}};
  for (std::uint64_t sources = random() % 6; sources > 0; --sources) {
    Dynamism seen;
    for (std::uint64_t n = random() % 4; n > 0; --n) {
      std::vector<std::int64_t> sizes;
      for (std::uint64_t dims = random() % 5; dims > 0; --dims)
        sizes.push_back(static_cast<std::int64_t>(random() % 3));
      seen = join(seen, random() % 4 == 0 ? Dynamism::of_int(static_cast<std::int64_t>(random()))
                                          : tensor(sizes));
    }
    kept.profile[random_text(random)] = {{random(), random()}, seen};
  }
  return kept;
}

/// Requires one.
Status refusal(std::span<const std::byte> bytes) {
  const auto kept = decode_profile(bytes);
  return kept ? Status{Code::Internal, "it was read"} : kept.error();
}

TEST(StoredBytes, RandomProfiles_ComeBack) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const KeptProfile kept = random_profile(random);
    const auto read = decode_profile(encode(kept));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, kept);
  }
}

TEST(StoredBytes, CutOrAlteredAnywhere_AreRefusedWithAReason) {
  const Bytes whole = encode(example());
  start_counting();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const Status cut = refusal(std::span(whole).first(at));
    EXPECT_EQ(cut.code, Code::Environment) << at;
    EXPECT_EQ(cut.message, at < kSealBytes
                               ? fmt::format("it is cut short at {} bytes", at)
                               : fmt::format("{} bytes follow its seal, which says {}",
                                             at - kSealBytes, whole.size() - kSealBytes));
    for (int value = 1; value < 256; ++value) {
      Bytes altered = whole;
      altered[at] ^= static_cast<std::byte>(value);
      const Status status = refusal(altered);
      const std::string_view part = at < 8    ? "it does not begin as what lockstep stores"
                                    : at < 16 ? "it does not say that it is a profile"
                                    : at < 20 ? "it is of version "
                                    : at < 28 ? "bytes follow its seal, which says "
                                              : "its SHA-256 does not match";
      ASSERT_NE(status.message.find(part), std::string::npos) << at << ": " << status.message;
      ASSERT_EQ(status.code, 16 <= at && at < 20 ? Code::Version : Code::Environment) << at;
    }
  }
  EXPECT_LE(largest_allocation(), std::max<std::size_t>(whole.size(), 256));
}

TEST(StoredBytes, WhatIsWrongFirst_IsSaid) {
  Bytes bytes = seal({"network", 3}, Bytes(4));
  bytes.pop_back();
  EXPECT_EQ(refusal(bytes).message, "it does not say that it is a profile");
  bytes[0] = std::byte{'x'};
  EXPECT_EQ(refusal(bytes).message, "it does not begin as what lockstep stores");
  bytes = seal({"profile", 3}, Bytes(4));
  bytes.pop_back();
  EXPECT_EQ(refusal(bytes).message, "it is of version 3, this program reads 2");
  EXPECT_EQ(refusal(bytes).code, Code::Version);
  bytes = seal(kProfile, Bytes(4));
  bytes.back() = std::byte{1};
  EXPECT_EQ(refusal(bytes).message, "its SHA-256 does not match");
  EXPECT_EQ(refusal(seal(kProfile, Bytes(4))).message, "what is in it is no profile");
}

// The first byte says little-endian, the others are a size.
const Bytes kAsksForAGigabyte = of_hex(
    "01"
    "0000004000000000");

TEST(StoredBytes, NineBytesThatAskForAGigabyte_GetNothing) {
  ASSERT_EQ(kAsksForAGigabyte.size(), 9U);
  EXPECT_THROW(
      {
        std::istringstream in(
            std::string(reinterpret_cast<const char*>(kAsksForAGigabyte.data()), 9));
        std::string text;
        cereal::PortableBinaryInputArchive archive(in);
        archive(text);
      },
      std::bad_alloc)
      << "Cereal by itself allocates first";
  EXPECT_GE(largest_allocation(), std::size_t{1} << 30);
  start_counting();
  EXPECT_FALSE(read_archive<std::string>(kAsksForAGigabyte));
  EXPECT_FALSE(read_archive<Bytes>(kAsksForAGigabyte));
  EXPECT_FALSE(read_archive<std::vector<std::int64_t>>(kAsksForAGigabyte));
  EXPECT_FALSE(read_archive<std::vector<std::string>>(kAsksForAGigabyte));
  EXPECT_FALSE((read_archive<std::map<std::string, std::string>>(kAsksForAGigabyte)));
  EXPECT_FALSE(decode_profile(kAsksForAGigabyte));
  EXPECT_FALSE(decode_profile(seal(kProfile, kAsksForAGigabyte)));
  EXPECT_FALSE(decode_first_profile(kAsksForAGigabyte));
  EXPECT_LE(largest_allocation(), 256U);
}

// Under a right seal: whatever number stands anywhere, nothing large is allocated for it.
TEST(StoredBytes, NumbersThatAreTooLargeAnywhere_AllocateNothing) {
  const Bytes whole = encode(example());
  const std::size_t size = whole.size() - kSealBytes;
  start_counting();
  int refused = 0;
  for (const std::uint64_t number :
       {size, std::size_t{1} << 30, std::size_t{1} << 61, std::size_t{1} << 63, SIZE_MAX})
    for (std::size_t at = 1; at + 8 <= size; ++at) {
      Bytes payload(whole.begin() + kSealBytes, whole.end());
      for (std::size_t i = 0; i < 8; ++i) payload[at + i] = static_cast<std::byte>(number >> 8 * i);
      refused += !decode_profile(seal(kProfile, payload));
    }
  EXPECT_GT(refused, 400);
  EXPECT_LE(largest_allocation(), size * sizeof(shapes::Seen));
}

TEST(StoredBytes, RandomBytesUnderARightSeal_AreNoProfileThatNoRunCanHaveSeen) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const Bytes whole = encode(random_profile(random));
    Bytes payload(whole.begin() + kSealBytes, whole.end());
    payload[random() % payload.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (random() % 3 == 0) payload.resize(random() % payload.size());
    start_counting();
    const auto kept = decode_profile(seal(kProfile, payload));
    EXPECT_LE(largest_allocation(), 256 + payload.size() * sizeof(shapes::Seen));
    if (!kept) continue;
    for (const auto& [name, source] : kept->profile) EXPECT_TRUE(plausible(source.seen));
    EXPECT_EQ(*decode_profile(encode(*kept)), *kept);
  }
}

TEST(StoredBytes, Profile_HasTheseBytes) {
  constexpr std::string_view kBytes =
      "6c6f636b7374657070726f66696c650002000000c400000000000000e46216cf3f9586adb46e366bd8b2"
      "4c86e496f0c26f81cd129f448e5d0a951a5b010200000005000000000000006a6f6220310a0000000000"
      "0000747261696e5f73746570050000000000000006000000000000000200000000000000010000000000"
      "00006e0300000000000000040000000000000001f9ffffffffffffff0200000000000000000000000000"
      "000000010000000000000078010000000000000002000000000000000300000000000000000102000000"
      "000000000300000000000000000108000000000000000200000000000000040000000000000008000000"
      "00000000";
  EXPECT_EQ(hex(encode(example())), kBytes)
      << "a change of what is stored raises the version of its type";
  const auto read = decode_profile(of_hex(kBytes));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, example());
}

TEST(StoredBytes, FirstVersionOfAProfile_IsReadFromOldRecords) {
  constexpr std::string_view kBytes =
      "0102000000010000006e0300000000000000040000000000000001f9ffffffffffffff02000000000200"
      "000000000000000100000078010000000000000002000000000000000300000000000000000102000000"
      "030000000000000000010800000000000000010200000002010000000000000001010000000000000002"
      "00000004000000000000000800000000000000";
  const auto read = decode_first_profile(of_hex(kBytes));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, example().profile);
  const Bytes whole = of_hex(kBytes);
  start_counting();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_first_profile(std::span(whole).first(size))) << size;
  EXPECT_LE(largest_allocation(), 256U);
  EXPECT_EQ(refusal(whole).code, Code::Environment);
}

}  // namespace
}  // namespace lockstep::coordinator::stored_bytes_test
