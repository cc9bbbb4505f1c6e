// A field of users as an input of a frame (exchange/field.h): the caller passes this rank's value
// in, and the frame's function gets the value that the ranks agreed on.
//
//   struct Batch {
//     Tensor tokens;
//     FieldInput capacity;  // {512, FieldJoin::Max}
//     template <class V> void fields(V& v) { v("tokens", tokens); v("capacity", capacity); }
//   };
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {

/// A constant of the entry, as a bool is; no tensor and no size. Value type.
class FieldInput {
 public:
  /// The int 0, equal on all ranks.
  FieldInput() : values_(1) {}
  FieldInput(bool value, FieldJoin join)
      : type_(FieldType::Bool), join_(join), values_{{value ? 1 : 0, {}}} {}
  FieldInput(std::int64_t value, FieldJoin join) : join_(join), values_{{value, {}}} {}
  FieldInput(int value, FieldJoin join) : FieldInput(std::int64_t{value}, join) {}
  FieldInput(std::string text, FieldJoin join)
      : type_(FieldType::Text), join_(join), values_{{0, std::move(text)}} {}
  FieldInput(const char* text, FieldJoin join) : FieldInput(std::string(text), join) {}
  [[nodiscard]] static FieldInput bytes(std::string bytes, FieldJoin join) {
    FieldInput out(std::move(bytes), join);
    out.type_ = FieldType::Bytes;
    return out;
  }
  [[nodiscard]] static FieldInput of(const JoinedField& joined) {
    FieldInput out;
    out.type_ = joined.spec.type;
    out.join_ = joined.spec.join;
    out.values_ = joined.values;
    return out;
  }

  [[nodiscard]] FieldType type() const { return type_; }
  /// One value; within a frame, a union may have several.
  [[nodiscard]] const std::vector<FieldValue>& values() const { return values_; }
  // The first value. Each requires the type in its name.
  [[nodiscard]] bool truth() const { return values_.front().number != 0; }
  [[nodiscard]] std::int64_t integer() const { return values_.front().number; }
  /// Text or bytes.
  [[nodiscard]] const std::string& text() const { return values_.front().bytes; }

  /// This rank's field, for its observation.
  [[nodiscard]] Field named(std::string name) const {
    return {{std::move(name), type_, join_}, values_.front()};
  }

 private:
  FieldType type_ = FieldType::Int;
  FieldJoin join_ = FieldJoin::Equal;
  std::vector<FieldValue> values_;
};

}  // namespace lockstep::worker
