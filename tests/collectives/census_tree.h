// Censuses as payloads of a TreeRound, and their join. Bytes that do not decode are an empty census.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/collectives/census.h>

namespace lockstep::collectives {

inline Bytes census_payload(Rank self, std::string_view value) {
  ByteWriter out;
  Census::of(self, value).encode(out);
  return std::move(out).take();
}

inline Bytes join_census(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  ByteReader low(lower), high(higher);
  Census census = Census::decode(low);
  census.join(Census::decode(high));
  ByteWriter out;
  census.encode(out);
  return std::move(out).take();
}

inline std::vector<RankValue> census_values(std::span<const std::byte> payload) {
  ByteReader in(payload);
  return Census::decode(in).values();
}

}  // namespace lockstep::collectives
