// One rank's view of the inputs of one call: sources by name, and one flat vector of their sizes,
// ints and bools. It is made on every call, so it is flat, and calls with the same sources share
// one list. Nothing here has side effects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {

enum class Kind : std::uint8_t { Tensor, Int, Float, Bool };
/// "tensor", "int", "float", "bool"
[[nodiscard]] std::string_view kind_name(Kind kind);

/// The user's rule for a dim, in this call.
enum class Mark : std::uint8_t { None, Dynamic, MaybeDynamic, Unbacked, Static, Uniform };
inline constexpr int kMarkCount = 6;
/// "dynamic", "maybe_dynamic", "unbacked", "static", "uniform"; "" for None
[[nodiscard]] std::string_view mark_name(Mark mark);

/// One input; equal in all calls that share the list.
struct SourceSpec {
  std::string name;  // "batch.tokens"
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;  // tensors only
  std::uint32_t ndim = 0;    // tensors only
  /// "x f32 of 2 dims", "n int"
  [[nodiscard]] std::string text() const;
  bool operator==(const SourceSpec&) const = default;
};

/// The sources of a call, sorted by the bytes of their names; names are unique. Immutable, shared
/// by all calls with the same sources.
class SourceList {
 public:
  explicit SourceList(std::vector<SourceSpec> sorted);
  [[nodiscard]] const std::vector<SourceSpec>& sources() const { return sources_; }
  /// Element i is the index in Observation::values at which source i's values start. The last
  /// element is the number of values.
  [[nodiscard]] const std::vector<std::uint32_t>& offsets() const { return offsets_; }
  /// Index of source i's scalar in Observation::scalars. Only floats and 0-d tensors of integers or
  /// bools have a scalar; nullopt for other sources.
  [[nodiscard]] std::optional<std::uint32_t> scalar(std::size_t i) const;
  /// Number of sources with a scalar.
  [[nodiscard]] std::size_t scalars() const { return scalar_sources_.size(); }
  /// Fingerprint of names, kinds, dtypes and ndims.
  [[nodiscard]] const shapes::Fingerprint& digest() const { return digest_; }
  /// The index of the source with that name, if any.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;

 private:
  std::vector<SourceSpec> sources_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint32_t> scalar_sources_;
  shapes::Fingerprint digest_;
};

/// One call's inputs on one rank. A tensor contributes its sizes, an int its value, a bool 0 or 1.
/// A float contributes nothing, because it is a runtime value. Scalars are not exchanged; they
/// serve the guards of functions that branch on them (host_value.h).
struct Observation {
  std::shared_ptr<const SourceList> list;
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> orders;  // per source (dim_order.h); empty: all are contiguous
  std::vector<Mark> marks;           // parallel to values; empty: none
  /// Indexed by SourceList::scalar: an integer, or the bits of a float. Empty: not read.
  std::vector<std::int64_t> scalars;
  std::vector<Field> fields;  // sorted by the bytes of their names; empty: none

  /// The values of source i: a tensor's sizes, an int or a bool; empty for a float.
  [[nodiscard]] std::span<const std::int64_t> of(std::size_t i) const {
    return std::span(values).subspan(list->offsets()[i],
                                     list->offsets()[i + 1] - list->offsets()[i]);
  }
  /// The mark of dim `dim` of source i.
  [[nodiscard]] Mark mark(std::size_t i, std::size_t dim) const {
    return marks.empty() ? Mark::None : marks[list->offsets()[i] + dim];
  }
  /// True if every tensor is in row-major order.
  [[nodiscard]] bool contiguous() const {
    return std::all_of(orders.begin(), orders.end(), [](std::int64_t o) { return o == 0; });
  }
  /// Sets the order of a source's dims; `orders` stays empty while all are contiguous. Requires
  /// that `list` is set.
  void set_order(std::size_t i, std::int64_t order);
};

/// Makes one rank's observation from sources given in any order; a source with a name that was
/// given before replaces the earlier one.
///
///   ObservationBuilder().tensor("tokens", {rows, 16}).boolean("train", true).build()
class ObservationBuilder {
 public:
  ObservationBuilder& tensor(std::string name, std::vector<std::int64_t> sizes,
                             DType dtype = DType::F32);
  ObservationBuilder& integer(std::string name, std::int64_t value);
  ObservationBuilder& real(std::string name);
  ObservationBuilder& boolean(std::string name, bool value);
  /// Sets a tensor's strides; default: contiguous. Requires that the tensor was given with as many
  /// dims.
  ObservationBuilder& strides(std::string_view name, std::span<const std::int64_t> strides);
  /// Marks a dim of a tensor. Requires that the tensor was given and has the dim.
  ObservationBuilder& mark(std::string_view name, std::size_t dim, Mark mark);
  /// Adds a field, which is joined with those of the other ranks. A wrong field (without a name,
  /// with a name that is taken, or of more than 1,024 bytes) makes the call fail with BadInput on
  /// all ranks.
  ObservationBuilder& field(std::string name, bool value, FieldJoin join);
  ObservationBuilder& field(std::string name, std::int64_t value, FieldJoin join);
  ObservationBuilder& field(std::string name, int value, FieldJoin join) {
    return field(std::move(name), std::int64_t{value}, join);
  }
  ObservationBuilder& field(std::string name, std::string text, FieldJoin join);
  ObservationBuilder& field(std::string name, const char* text, FieldJoin join) {
    return field(std::move(name), std::string(text), join);
  }
  ObservationBuilder& field(std::string name, std::span<const std::byte> bytes, FieldJoin join);
  [[nodiscard]] Observation build() const;

 private:
  struct Source {
    SourceSpec spec;
    std::vector<std::int64_t> values;
    std::vector<Mark> marks;
    std::int64_t order = 0;
  };
  ObservationBuilder& add(SourceSpec spec, std::vector<std::int64_t> values);
  std::map<std::string, Source, std::less<>> sources_;
  std::vector<Field> fields_;
};

/// The state of each source of a frame (rules.md, "State"), by name.
using FrameState = std::map<std::string, shapes::Dynamism>;

/// The scalar of `source`; nullopt if the source has none or scalars were not read.
[[nodiscard]] std::optional<std::int64_t> scalar_of(const Observation& observation,
                                                    std::string_view source);

/// Describes the first source in which a call with `list` differs from an entry made for `known`:
/// "the entry has no input mask". Requires that they differ.
[[nodiscard]] std::string other_source(const std::vector<SourceSpec>& known,
                                       const SourceList& list);

/// "tokens.size(0)", as users write it and messages name it.
[[nodiscard]] std::string size_text(std::string_view source, std::size_t dim);

}  // namespace lockstep::worker
