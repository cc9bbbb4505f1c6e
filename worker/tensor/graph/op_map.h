// A table by op: what a room does with each op of a class, or with each op that has some trait.
// Made at compile time; it does not compile if an op is missing, repeated, or of another class.
#pragma once

#include <initializer_list>

#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {

template <OpClass kClass>
constexpr bool of_class(const OpRow& row) {
  return row.kind == kClass;
}
template <OpRow::Trait kTrait>
constexpr bool with_trait(const OpRow& row) {
  return row.is(kTrait);
}

template <class T>
class OpMap {
 public:
  struct Entry {
    Op op;
    T value;
  };
  /// Requires one entry for each op whose row is `wanted`.
  consteval OpMap(bool (*wanted)(const OpRow&), std::initializer_list<Entry> entries) {
    std::array<bool, kOps.size()> given{};
    for (const Entry& entry : entries) {
      const auto at = static_cast<std::size_t>(entry.op);
      if (!wanted(kOps[at]) || given[at]) throw "an entry is there twice, or of another class";
      given[at] = true;
      values_[at] = entry.value;
    }
    for (std::size_t i = 0; i < kOps.size(); ++i)
      if (wanted(kOps[i]) && !given[i]) throw "an op has no entry";
  }
  /// T{} for an op that is not wanted.
  constexpr const T& operator[](Op op) const { return values_.at(static_cast<std::size_t>(op)); }

 private:
  std::array<T, kOps.size()> values_{};
};

}  // namespace lockstep::worker
