// The names that all ranks of a frame know alike, so that each travels once: the layout of the
// exchange where ranks see different sources or hold different states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// A name and the most dims that any rank ever had of it.
struct KnownName {
  std::string name;
  std::uint32_t dims = 0;
  bool operator==(const KnownName&) const = default;
};
/// By the bytes of their names, names unique.
using KnownNames = std::vector<KnownName>;

/// Of a name that comes twice the larger number of dims counts.
[[nodiscard]] KnownNames merge(const KnownNames& a, const KnownNames& b);

/// Immutable; equal on all ranks that learnt the same, in whatever order. Each name has a slot for
/// an int and one per dim.
class Dictionary {
 public:
  explicit Dictionary(KnownNames names = {});
  [[nodiscard]] const KnownNames& names() const { return names_; }
  /// The slot of the int of name i, before those of its dims; one more at the end.
  [[nodiscard]] const std::vector<std::uint32_t>& offsets() const { return offsets_; }
  [[nodiscard]] const shapes::Fingerprint& digest() const { return digest_; }

 private:
  KnownNames names_;
  std::vector<std::uint32_t> offsets_;
  shapes::Fingerprint digest_;
};

/// Finds names that are asked for in ascending order, in one pass. The dictionary outlives it.
class NameWalk {
 public:
  explicit NameWalk(const Dictionary& dictionary) : names_(dictionary.names()) {}
  /// The index of that name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name);
  /// The dictionary lacks the name, or has it with fewer dims.
  [[nodiscard]] bool lacks(std::string_view name, std::size_t dims);

 private:
  const KnownNames& names_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::worker
