// The file of one rank in a checkpoint: a safetensors file of the rank's pieces. The metadata hold
// the place and the digest of each piece, and the rank's small values.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/files/checkpoint/piece.h>
#include <lockstep/worker/files/checkpoint/stage.h>

namespace lockstep::worker {

inline constexpr std::string_view kCheckpointFormat = "lockstep.checkpoint/1";

/// Identifies the save that a file belongs to. `save` is the name that rank 0 gives to all saves of
/// its CheckpointSaver.
struct SaveName {
  std::string save;
  std::int64_t step = 0;
  int rank = 0, world_size = 1;
  bool operator==(const SaveName&) const = default;
};

/// A piece and its elements.
struct PieceBytes {
  Piece piece;
  std::span<const std::byte> bytes;
};

struct RankFileContent {
  SaveName name;
  std::vector<PieceBytes> written;
  std::vector<PieceBytes> replicas;  // written by lower ranks; this file has only their digests
  std::vector<SmallValue> values;
};

/// A piece in a file, without its elements.
struct StoredPiece {
  Piece piece;
  std::string digest;
};

/// The content of a rank's file, without the elements.
struct RankFile {
  SaveName name;
  std::uint64_t bytes = 0;  // size of the whole file
  std::vector<StoredPiece> written;
  std::map<std::string, std::string> replicas;  // digest by name of the tensor
  std::vector<SmallValue> values;
};

/// "rank-00003.safetensors"
[[nodiscard]] std::string rank_file_name(int rank);

/// Writes the file, syncs it to disk and gives it its name. Calls `at` at each stage. Errors:
/// Environment.
[[nodiscard]] Result<void> write_rank_file(const std::string& path, const RankFileContent& content,
                                           const StageObserver& at);
/// Errors: BadInput (damaged, or not a rank's file), Version, Environment.
[[nodiscard]] Result<RankFile> read_rank_file(const std::string& path);

}  // namespace lockstep::worker
