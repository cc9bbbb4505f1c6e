// The fields that commands and replies have in common, as bytes. Internal to this room.
#pragma once

#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/controller/speech/numbers.h>
#include <lockstep/worker/controller/speech/tensor_bytes.h>
#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker {

void put(ByteWriter& out, Handle handle);
void put(ByteWriter& out, FrameNumber frame);
void put(ByteWriter& out, const Status& status);
void put(ByteWriter& out, const std::optional<Status>& status);
void put(ByteWriter& out, const std::vector<std::int64_t>& numbers);
void put(ByteWriter& out, const TensorBytes& tensor);
/// The sources with what was seen of them; no marks, orders and fields.
void put(ByteWriter& out, const Observation& seen);

/// Reads them; once something is wrong, all that follows is empty, and sound() is false.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : in_(bytes) {}
  [[nodiscard]] bool sound() const { return sound_ && in_.ok(); }
  /// All is read, and well.
  [[nodiscard]] bool whole() const { return sound() && in_.at_end(); }

  std::uint8_t u8() { return in_.u8(); }
  std::uint32_t u32() { return in_.u32(); }
  std::uint64_t u64() { return in_.u64(); }
  std::int64_t i64() { return in_.i64(); }
  std::string text() { return in_.text(); }
  std::uint32_t count(std::size_t least_bytes) { return in_.count(least_bytes); }
  bool flag() { return number_below(2) == 1; }
  std::uint8_t number_below(int limit);
  Rank rank();
  Handle handle() { return Handle{u64()}; }
  FrameNumber frame() { return FrameNumber{u32()}; }
  DType dtype();
  Status status();
  std::optional<Status> status_if_any();
  std::vector<std::int64_t> numbers();
  TensorBytes tensor();
  Observation seen();

 private:
  ByteReader in_;
  bool sound_ = true;
};

}  // namespace lockstep::worker
