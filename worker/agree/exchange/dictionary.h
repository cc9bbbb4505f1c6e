// The dictionary: the names that all ranks of a frame know, so that each name is sent once. It is
// the layout of an exchange in which ranks see different sources or hold different states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// A name and the largest number of dims that any rank had for it.
struct KnownName {
  std::string name;
  std::uint32_t dims = 0;
  bool operator==(const KnownName&) const = default;
};
/// Sorted by the bytes of their names; names are unique.
using KnownNames = std::vector<KnownName>;

/// The union of both. A name in both gets the larger number of dims.
[[nodiscard]] KnownNames merge(const KnownNames& a, const KnownNames& b);

/// Immutable; equal on ranks that learnt the same names, in any order. Each name has a slot for an
/// int and one per dim.
class Dictionary {
 public:
  explicit Dictionary(KnownNames names = {});
  [[nodiscard]] const KnownNames& names() const { return names_; }
  /// Offset i is the slot of the int of name i; the slots of the name's dims follow. The last
  /// offset is the number of slots.
  [[nodiscard]] const std::vector<std::uint32_t>& offsets() const { return offsets_; }
  [[nodiscard]] const shapes::Fingerprint& digest() const { return digest_; }

 private:
  KnownNames names_;
  std::vector<std::uint32_t> offsets_;
  shapes::Fingerprint digest_;
};

/// Finds names that are asked for in ascending order, in one pass. The dictionary must outlive it.
class NameWalk {
 public:
  explicit NameWalk(const Dictionary& dictionary) : names_(dictionary.names()) {}
  /// The index of that name, if the dictionary has it.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name);
  /// True if the dictionary lacks the name, or has it with fewer dims.
  [[nodiscard]] bool lacks(std::string_view name, std::size_t dims);

 private:
  const KnownNames& names_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::worker
