// Reads the pieces of a checkpoint from the files of its ranks, and compares them with their
// digests, through a buffer of one slab.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/checkpoint/index.h>

namespace lockstep::worker {

/// Elements of a part of a tensor, in row-major order.
struct PartMemory {
  Box box;
  std::span<std::byte> bytes;
};

/// One file of a checkpoint is open at a time. One thread. Errors of all reads: BadInput, naming
/// file and tensor (damaged, or not what the index says), Environment.
class PieceReader {
 public:
  /// `index` outlives it. `at_work` is called now and then.
  PieceReader(std::string folder, const CheckpointIndex& index, std::function<void()> at_work = {});

  /// What the piece and `into` have in common is read into it, and nothing else.
  [[nodiscard]] Result<void> read(const IndexedTensor& tensor, const IndexedPiece& piece,
                                  const PartMemory& into);
  /// Reads all of the piece and compares the digest; what it has in common with `into`, if there is
  /// one, is put there.
  [[nodiscard]] Result<void> verify(const IndexedTensor& tensor, const IndexedPiece& piece,
                                    const PartMemory* into = nullptr);
  /// Of elements.
  [[nodiscard]] std::uint64_t bytes_read() const;

 private:
  [[nodiscard]] Result<const StoredTensor*> open(const IndexedTensor& tensor,
                                                 const IndexedPiece& piece);
  std::string folder_;
  const CheckpointIndex& index_;
  std::function<void()> at_work_;
  int open_rank_ = -1;
  std::optional<SafetensorsFile> file_;
  std::uint64_t read_before_ = 0;  // from files that are closed
  std::vector<std::byte> buffer_;
};

}  // namespace lockstep::worker
