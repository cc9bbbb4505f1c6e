// The points at which a save can be cut off. Tests stop the process at each of them and compare the
// folder with this table.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

namespace lockstep::worker {

/// In the order in which a save passes them.
enum class CheckpointStage : std::uint8_t {
  FolderMade,
  FileBegun,
  FileHalfWritten,
  FileWritten,
  FileSynced,
  FileNamed,
  AllWritten,
  IndexWritten,
  IndexSynced,
  IndexNamed,
  Committed,
  CommittedSynced,
  OlderUnnamed,
  OlderRemoved,
};

struct StageRow {
  CheckpointStage stage;
  std::string_view name;
  /// True if every rank passes this stage, false if only the lowest does.
  bool every_rank;
  /// True if the new checkpoint is complete when the job ends at this stage; else the one before is
  /// the last.
  bool complete;
};

/// One row per stage, in order; the compiler refuses a table in which one is missing.
class StageTable {
 public:
  static constexpr std::size_t kCount = static_cast<std::size_t>(CheckpointStage::OlderRemoved) + 1;
  consteval StageTable(std::array<StageRow, kCount> rows) : rows_(rows) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (rows[i].stage != static_cast<CheckpointStage>(i))
        throw "a stage is missing, or misplaced";
      if (rows[i].name.empty()) throw "a stage has no name";
      if (rows[i].complete != (rows[i].stage >= CheckpointStage::Committed))
        throw "the rename of the folder alone makes a checkpoint complete";
      for (std::size_t k = 0; k < i; ++k)
        if (rows[k].name == rows[i].name) throw "two stages have one name";
    }
  }
  [[nodiscard]] constexpr const StageRow& operator[](CheckpointStage stage) const {
    return rows_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] constexpr const std::array<StageRow, kCount>& rows() const { return rows_; }

 private:
  std::array<StageRow, kCount> rows_;
};

inline constexpr StageTable kStages(std::array<StageRow, StageTable::kCount>{{
    {CheckpointStage::FolderMade, "folder_made", false, false},
    {CheckpointStage::FileBegun, "file_begun", true, false},
    {CheckpointStage::FileHalfWritten, "file_half_written", true, false},
    {CheckpointStage::FileWritten, "file_written", true, false},
    {CheckpointStage::FileSynced, "file_synced", true, false},
    {CheckpointStage::FileNamed, "file_named", true, false},
    {CheckpointStage::AllWritten, "all_written", true, false},
    {CheckpointStage::IndexWritten, "index_written", false, false},
    {CheckpointStage::IndexSynced, "index_synced", false, false},
    {CheckpointStage::IndexNamed, "index_named", false, false},
    {CheckpointStage::Committed, "committed", false, true},
    {CheckpointStage::CommittedSynced, "committed_synced", false, true},
    {CheckpointStage::OlderUnnamed, "older_unnamed", false, true},
    {CheckpointStage::OlderRemoved, "older_removed", false, true},
}});

/// Called at each stage that this rank passes, on the thread that passes it.
using StageObserver = std::function<void(CheckpointStage)>;

}  // namespace lockstep::worker
