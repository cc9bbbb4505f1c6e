// The index of a checkpoint: its tensors, and the file and place of each of their pieces. It is
// built from the ranks' files, and written last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/files/checkpoint/rank_file.h>

namespace lockstep::worker {

inline constexpr std::string_view kIndexName = "index.json";
/// Largest index that is read, in bytes; a longer one is refused.
inline constexpr std::uint64_t kMostIndexBytes = 256'000'000;

struct IndexedPiece {
  int file = 0;  // the rank that wrote it
  Box box;
  std::string digest;
};

struct IndexedTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> global;
  std::vector<IndexedPiece> pieces;
};

/// A value shared by all ranks has one text, a per-rank value one for each rank.
struct IndexedValue {
  std::string name;
  ValueKind kind = ValueKind::Int;
  bool per_rank = false;
  std::vector<std::string> texts;
};

/// Invariant: the pieces of every tensor fill it, without overlap.
struct CheckpointIndex {
  std::int64_t step = 0;
  int world_size = 1;
  std::vector<std::uint64_t> file_bytes;  // bytes of each rank's file
  std::vector<IndexedTensor> tensors;     // by name
  std::vector<IndexedValue> values;       // by name

  [[nodiscard]] const IndexedTensor* find(std::string_view name) const;
  [[nodiscard]] const IndexedValue* find_value(std::string_view name) const;
};

/// Builds the index from the files of all ranks, in rank order. Errors: ConstraintViolation, naming
/// tensor or value: a replica or shared value that differs, a value missing on a rank, pieces that
/// do not fill their tensor; Environment: a file of another save.
[[nodiscard]] Result<CheckpointIndex> make_index(const std::vector<RankFile>& files);

/// Returns the text of the index file, with a digest of its content.
[[nodiscard]] std::string index_text(const CheckpointIndex& index);
/// Parses `text`, the content of `file`. Errors: BadInput (damaged), Version.
[[nodiscard]] Result<CheckpointIndex> index_in(std::string_view text, const std::string& file);
/// Reads the index of the checkpoint in `folder`. Errors: as index_in; Environment.
[[nodiscard]] Result<CheckpointIndex> read_index(const std::string& folder);

}  // namespace lockstep::worker
