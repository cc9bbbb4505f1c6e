// Reads the pieces of a checkpoint from the ranks' files and compares their digests, through a
// buffer of one slab.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/files/checkpoint/index.h>

namespace lockstep::worker {

/// Elements of a part of a tensor, in row-major order.
struct PartMemory {
  Box box;
  std::span<std::byte> bytes;
};

/// Keeps one file of the checkpoint open at a time. Single-threaded. Errors of all reads: BadInput,
/// naming file and tensor (damaged, or not as the index says), Environment.
class PieceReader {
 public:
  /// `index` outlives it. `report_busy` is called at each read() and at each slab of a verify().
  PieceReader(std::string folder, const CheckpointIndex& index,
              std::function<void()> report_busy = {});

  /// Reads the elements that `piece` and `into` have in common, and no others.
  [[nodiscard]] Result<void> read(const IndexedTensor& tensor, const IndexedPiece& piece,
                                  const PartMemory& into);
  /// Reads the whole piece and compares its digest. If `into` is not null, copies the elements that
  /// it has in common with the piece.
  [[nodiscard]] Result<void> verify(const IndexedTensor& tensor, const IndexedPiece& piece,
                                    const PartMemory* into = nullptr);
  /// Bytes of elements read so far.
  [[nodiscard]] std::uint64_t bytes_read() const;

 private:
  [[nodiscard]] Result<const StoredTensor*> open(const IndexedTensor& tensor,
                                                 const IndexedPiece& piece);
  std::string folder_;
  const CheckpointIndex& index_;
  std::function<void()> report_busy_;
  int open_rank_ = -1;
  std::optional<SafetensorsFile> file_;
  std::uint64_t read_before_ = 0;  // bytes read from files that are closed again
  std::vector<std::byte> buffer_;
};

}  // namespace lockstep::worker
