// Fields that commands and replies share. Internal to this room.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/wire/fields.h>
#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/controller/messages/tensor_bytes.h>

namespace lockstep::worker {

using collectives::kAnyLength;
using collectives::kAnyRank;
using collectives::kNumber;
using collectives::kStruct;
using collectives::Of;

/// Most dims that are accepted.
inline constexpr std::uint32_t kMostDims = 64;

inline constexpr auto kText = [](auto& visit, auto& x) { visit.bytes(x); };
inline constexpr auto kNumbers = [](auto& visit, auto& x) {
  visit.list(x, kAnyLength, 8, kNumber);
};
inline constexpr auto kStatus = [](auto& visit, auto& status) {
  visit.kind(status.code, Code::Internal);
  visit.bytes(status.message);
  visit.bytes(status.source);
  visit.list(status.groups, kAnyLength, 8, [](auto& row_visit, auto& row) {
    row_visit.ranks(row.ranks);
    row_visit.bytes(row.value);
  });
};

void fields(auto& visit, Of<TensorBytes> auto& tensor) {
  visit.kind(tensor.dtype, DType::F64);
  kNumbers(visit, tensor.sizes);
  visit.bytes(tensor.elements);
  if (!visit.sound()) return;
  visit.require(tensor.sizes.size() <= kMostDims &&
                bytes_of(tensor.dtype, tensor.sizes) == tensor.elements.size());
}

void fields(auto& visit, Of<SourceSpec> auto& source) {
  visit.bytes(source.name);
  visit.kind(source.kind, Kind::Bool);
  visit.kind(source.dtype, DType::F64);
  visit.below(source.ndim, kMostDims + 1);
}

/// The sources and their observed values; without marks, orders and fields.
void fields(collectives::FieldWriter& visit, const Observation& seen);
void fields(collectives::FieldReader& visit, Observation& seen);

/// Encodes the type, which is the index of the alternative, and the fields.
template <class Variant>
[[nodiscard]] Bytes encode_message(const Variant& message) {
  collectives::FieldWriter out;
  out.number(static_cast<std::uint8_t>(message.index()));
  collectives::write_alternative(out, message);
  return std::move(out).take();
}
template <class Variant>
[[nodiscard]] std::optional<Variant> decode_message(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::nullopt;
  return collectives::read_alternative<Variant>(std::to_integer<std::size_t>(bytes[0]),
                                                bytes.subspan(1));
}

}  // namespace lockstep::worker
