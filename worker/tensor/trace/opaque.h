// Objects that are no tensors as inputs of a frame: a tokenizer, a mesh, a configuration. What the
// function reads of an object is a constant of the entry. Another object compiles another entry,
// and ranks with different objects get one error that names them.
//
//   struct Batch {
//     Tensor tokens;
//     Opaque<Tokenizer> tokenizer;  // a std::shared_ptr<Tokenizer>
//     template <class V> void fields(V& v) { v("tokens", tokens); v("tokenizer", tokenizer); }
//   };
//
// By default an object equals itself only. A process cannot recognise an object of another process,
// so ranks compare the order in which their frames first met the objects: "object 1", "object 2". A
// second argument declares an equality:
//
//   struct SameVocabulary {
//     static std::uint64_t hash(const Tokenizer& t);  // the same in every process
//     static bool equal(const Tokenizer& a, const Tokenizer& b);
//     static std::string text(const Tokenizer& t);    // for messages; may be left out
//   };
//   Opaque<Tokenizer, SameVocabulary> tokenizer;
//
// Ranks then compare hashes, and equal() distinguishes objects of one hash within a process. Only
// the hash of a destroyed object is kept. A frame keeps no object alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {

/// An object as the walks of inputs handle it. Value type.
class OpaqueInput {
 public:
  using Equal = bool (*)(const void*, const void*);

  [[nodiscard]] bool empty() const { return object_ == nullptr; }

 protected:
  OpaqueInput() = default;
  OpaqueInput(std::shared_ptr<const void> object, std::type_index type)
      : object_(std::move(object)), type_(type) {}
  [[nodiscard]] const void* object() const { return object_.get(); }
  void declare(std::uint64_t hash, Equal equal, std::string text) {
    hash_ = hash, equal_ = equal, text_ = std::move(text);
  }

 private:
  friend class ObjectTable;
  std::shared_ptr<const void> object_;
  std::type_index type_ = typeid(void);
  std::optional<std::uint64_t> hash_{};  // set for a declared equality
  Equal equal_ = nullptr;
  std::string text_{};
};

/// The default equality: an object equals itself only.
struct SameObject {};

/// An object as an input. `Same` is SameObject or has hash() and equal(), as above.
template <class T, class Same = SameObject>
class Opaque : public OpaqueInput {
 public:
  /// No object: an error as an input.
  Opaque() = default;
  Opaque(std::shared_ptr<const T> object)  // NOLINT: an object is passed as it is
      : OpaqueInput(std::move(object), typeid(Opaque)) {
    if constexpr (!std::is_same_v<Same, SameObject>)
      if (!empty()) declare(Same::hash(*get()), &same, text_of(*get()));
  }
  Opaque(std::shared_ptr<T> object)  // NOLINT: as above
      : Opaque(std::shared_ptr<const T>(std::move(object))) {}

  [[nodiscard]] const T* get() const { return static_cast<const T*>(object()); }
  const T* operator->() const { return get(); }
  const T& operator*() const { return *get(); }

 private:
  static bool same(const void* a, const void* b) {
    return Same::equal(*static_cast<const T*>(a), *static_cast<const T*>(b));
  }
  static std::string text_of(const T& object) {
    if constexpr (requires { Same::text(object); }) return Same::text(object);
    return {};
  }
};

/// The objects that one frame has met, as weak references, with the names by which ranks compare
/// them. Objects are numbered in order, and numbers are not reused. With a declared equality, an
/// object takes the number of a destroyed object of its hash. Single-threaded.
class ObjectTable {
 public:
  /// Field `name` of a rank's observation. Requires an object. The value is "object 2"; with a
  /// declared equality "a vocabulary of 50257, hash 00c0ffee00c0ffee", followed by ", number 2" for
  /// the second of two unequal objects with one hash.
  [[nodiscard]] Field field(std::string name, const OpaqueInput& input);
  /// Number of objects known now.
  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  struct Known {
    std::weak_ptr<const void> object;
    const void* address = nullptr;
    std::type_index type;
    std::optional<std::uint64_t> hash;
    std::uint32_t number = 0;
  };
  [[nodiscard]] std::uint32_t number_of(const OpaqueInput& input);
  [[nodiscard]] std::uint32_t number_of_equal(const OpaqueInput& input);
  std::vector<Known> known_;
  std::uint32_t last_ = 0;
};

/// The order of keys in a list of pairs of names and values, as a field: a function that walks the
/// list may behave differently in another order.
[[nodiscard]] Field key_order_field(std::string list, const std::vector<std::string_view>& keys);

}  // namespace lockstep::worker
