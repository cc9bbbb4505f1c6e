// What one rank sees of the inputs of one call: sources by name, and one flat vector of their sizes
// and scalars. Free of side effects; made on every call, so it is flat and its list is shared.
#pragma once

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/shapes/fingerprint.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::worker {

enum class Kind : std::uint8_t { Tensor, Int, Float, Bool };
/// "tensor", "int", "float", "bool"
[[nodiscard]] std::string_view kind_name(Kind kind);

/// What a user says of a dim, this call.
enum class Mark : std::uint8_t { None, Dynamic, MaybeDynamic, Unbacked, Static };
/// "dynamic", "maybe_dynamic", "unbacked", "static"; "" for None
[[nodiscard]] std::string_view mark_name(Mark mark);

/// One input as all calls with the same list see it.
struct SourceSpec {
  std::string name;  // "batch.tokens"
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;   // tensors only
  std::uint32_t ndim = 0;     // tensors only
  bool operator==(const SourceSpec&) const = default;
};

/// The sources of a call, sorted by the bytes of their names, names unique. Immutable, shared by all
/// calls that see the same.
class SourceList {
 public:
  explicit SourceList(std::vector<SourceSpec> sorted);
  [[nodiscard]] const std::vector<SourceSpec>& sources() const { return sources_; }
  /// Where source i's values start in Observation::values; one more at the end.
  [[nodiscard]] const std::vector<std::uint32_t>& offsets() const { return offsets_; }
  /// Covers names, kinds, dtypes and ndims.
  [[nodiscard]] const shapes::Fingerprint& digest() const { return digest_; }

 private:
  std::vector<SourceSpec> sources_;
  std::vector<std::uint32_t> offsets_;
  shapes::Fingerprint digest_;
};

/// One call's inputs on one rank. A tensor contributes its sizes, an int its value, a bool 0 or 1, a
/// float nothing: it is a runtime value.
struct Observation {
  std::shared_ptr<const SourceList> list;
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> strides;  // parallel to values, tensors' dims only; empty: contiguous
  std::vector<Mark> marks;            // parallel to values; empty: none
};

}  // namespace lockstep::worker
