// The file of one rank in a checkpoint: a safetensors file of its pieces, whose metadata says where
// each piece stands in its tensor, what its digest is, and which small values the rank has.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/checkpoint/piece.h>
#include <lockstep/worker/checkpoint/stage.h>

namespace lockstep::worker {

inline constexpr std::string_view kCheckpointFormat = "lockstep.checkpoint/1";

/// Which save the file belongs to. `save` is a name that rank 0 gives to each save of a process.
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
  std::vector<PieceBytes> replicas;  // lower ranks write equal pieces; only their digests are kept
  std::vector<SmallValue> values;
};

/// A piece as it stands in a file.
struct StoredPiece {
  Piece piece;
  std::string digest;
};

/// What a rank's file says, without the elements.
struct RankFile {
  SaveName name;
  std::uint64_t bytes = 0;  // of the whole file
  std::vector<StoredPiece> written;
  std::map<std::string, std::string> replicas;  // digests, by name of the tensor
  std::vector<SmallValue> values;
};

/// "rank-00003.safetensors"
[[nodiscard]] std::string rank_file_name(int rank);

/// Writes and names the file, after fsync; `at` is told of each stage. Errors: Environment.
[[nodiscard]] Result<void> write_rank_file(const std::string& path, const RankFileContent& content,
                                           const StageObserver& at);
/// Errors: BadInput (damaged, or no file of a rank), Environment.
[[nodiscard]] Result<RankFile> read_rank_file(const std::string& path);

}  // namespace lockstep::worker
