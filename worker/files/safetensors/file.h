// Reads safetensors files: whole tensors and parts, each by reading only its own bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/files/safetensors/descriptor.h>
#include <lockstep/worker/files/safetensors/header.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// A part of a tensor: `sizes` elements from `start` on, per dim.
struct Box {
  std::vector<std::int64_t> start, sizes;
  bool operator==(const Box&) const = default;
  /// The box of a whole tensor of `sizes`.
  [[nodiscard]] static Box whole(const std::vector<std::int64_t>& sizes) {
    return {std::vector<std::int64_t>(sizes.size(), 0), sizes};
  }
};

/// A range of elements that is contiguous in two tensors, and its place in each.
struct Run {
  std::uint64_t from = 0, to = 0;  // offsets in bytes
  std::uint64_t bytes = 0;
};
/// Calls `each(Run)` in order for each run of `part`, from a tensor that holds the box `source` to
/// one that holds `target`; both are parts of one larger tensor. Stops at the first error. Requires
/// that `part` lies within both.
template <class Each>
[[nodiscard]] Result<void> each_run(const Box& part, const Box& source, const Box& target,
                                    std::size_t element, const Each& each);

/// An open file. open() reads and checks its header; each later read is checked against the file's
/// end. Single-threaded. Errors of all reads: BadInput naming file and tensor, Environment.
class SafetensorsFile {
 public:
  /// Errors: BadInput (not a safetensors file, damaged, not a regular file), Environment.
  [[nodiscard]] static Result<SafetensorsFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  /// Null if there is no tensor of that name.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  [[nodiscard]] Result<Array> read(std::string_view name);
  /// Reads `count` rows from `first` on. The tensor must have a dim.
  [[nodiscard]] Result<Array> read_rows(std::string_view name, std::int64_t first,
                                        std::int64_t count);
  /// Reads the box `part`.
  [[nodiscard]] Result<Array> read_part(std::string_view name, const Box& part);
  /// Reads bytes of `tensor` from `offset` on. Errors: BadInput (beyond its end).
  [[nodiscard]] Result<void> read_bytes(const StoredTensor& tensor, std::uint64_t offset,
                                        std::span<std::byte> into);
  /// Bytes of data read since open().
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  SafetensorsFile() = default;
  [[nodiscard]] Result<const StoredTensor*> named(std::string_view name) const;
  std::string path_;
  OpenFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> places_;  // in header_.tensors, by name
  std::uint64_t bytes_read_ = 0;
};

/// True if `part` lies within a tensor of `sizes`.
[[nodiscard]] bool lies_within(const Box& part, const std::vector<std::int64_t>& sizes);
/// "[0:3, 2:4]", for messages.
[[nodiscard]] std::string box_text(const Box& box);

template <class Each>
Result<void> each_run(const Box& part, const Box& source, const Box& target, std::size_t element,
                      const Each& each) {
  const std::size_t dims = part.sizes.size();
  for (const std::int64_t size : part.sizes)
    if (size == 0) return {};
  // A run covers the dims from `inner` on. All dims after `inner` are whole in both tensors.
  std::size_t inner = dims;
  std::uint64_t run = element;
  while (inner > 0) {
    --inner;
    run *= static_cast<std::uint64_t>(part.sizes[inner]);
    if (part.sizes[inner] != source.sizes[inner] || part.sizes[inner] != target.sizes[inner]) break;
  }
  const auto offset = [&](const Box& in, const std::vector<std::int64_t>& at) {
    std::uint64_t place = 0;
    for (std::size_t d = 0; d < dims; ++d)
      place = place * static_cast<std::uint64_t>(in.sizes[d]) +
              static_cast<std::uint64_t>(part.start[d] + at[d] - in.start[d]);
    return place * element;
  };
  std::vector<std::int64_t> at(dims, 0);
  while (true) {
    if (auto done = each(Run{offset(source, at), offset(target, at), run}); !done) return done;
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == part.sizes[d - 1]) at[--d] = 0;
    if (d == 0) return {};
  }
}

}  // namespace lockstep::worker
