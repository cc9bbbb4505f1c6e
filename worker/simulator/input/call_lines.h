// Scenario as JSON lines: the first line is the scenario without its calls, every further line a
// call. Calls are checked once when the file is opened and read again when they are needed.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/draw/regular_file.h>
#include <lockstep/worker/simulator/input/stored_calls.h>

namespace lockstep::worker::simulator {

/// Ending of the names of files that hold a scenario as JSON lines.
inline constexpr std::string_view kLinesEnding = ".jsonl";

/// The calls of such a file. Holds 16 bytes per call.
class CallLines final : public StoredCalls {
 public:
  CallLines(std::string path, int world_size)
      : path_(std::move(path)), world_size_(world_size), partition_(world_size) {}

  /// Adds the next line. Errors: BadInput, "FILE:LINE: PATH: what is wrong".
  [[nodiscard]] Result<void> add(const LineReader::Line& line);

  [[nodiscard]] std::size_t size() const override { return places_.size(); }
  [[nodiscard]] RankPartition partition() const override { return partition_; }

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t size = 0, check = 0;
  };
  [[nodiscard]] Result<ScenarioCall> read(std::size_t index) const override;
  [[nodiscard]] std::string where(std::size_t index) const;
  [[nodiscard]] Result<ScenarioCall> parse(std::size_t index, std::string_view text) const;

  std::string path_;
  int world_size_;
  RankPartition partition_;
  std::vector<Place> places_;
};

}  // namespace lockstep::worker::simulator
