// The calls of one rank's record. A pass over the file finds them, and each is read again when its
// turn comes; what is held of a call is where it stands, and enough to tell who saw the same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/agreement/record.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {

class RecordFields;

/// What one rank wrote during a call: an action that its machine asked for, or what came of it.
struct RecordedEvent {
  enum class Kind : std::uint8_t { Action, Trace, Explain, Compile };
  Kind kind = Kind::Action;
  std::string text;               // Action, Explain
  TraceReport trace;              // Trace
  std::optional<Status> failure;  // Compile
  Duration took{0};               // since the line before
  int line = 0;
};

struct RecordedCall {
  RoundKey key;
  Observation observation;
  /// What tells its frame from others of the record: that of the key, with a number where several
  /// agreements have one name.
  std::string frame;
  int agreement = 0;                         // 0: the job's own frames
  std::optional<DecisionConfig> own_config;  // of its agreement
  std::optional<shapes::Fingerprint> seen;   // observation_digest() as the rank wrote it down
  RankStatus rank_status;
  std::optional<FrameState> stored;  // what the frame started from, on its first call
  /// The entries of a saved program that it started from, likewise.
  std::shared_ptr<const std::vector<Entry>> entries;
  std::vector<RecordedEvent> events;
  std::optional<CallOutcome> outcome;  // nullopt: the record ends within the call
  Duration pause{0}, closing{0};       // from the line before the call, and before its end
  int line = 0;
};

using SourceLists = std::map<shapes::Fingerprint, std::shared_ptr<const SourceList>>;

/// One of a program's agreements, each with frames and a configuration of its own.
struct RecordedAgreement {
  std::string name;
  int of_name = 1;  // the so-manieth with this name
  DecisionConfig config;
};
using RecordedAgreements = std::map<int, RecordedAgreement>;  // by number

/// What a replay calls a frame, of agreements of which several have one name.
[[nodiscard]] std::string frame_of(const std::string& frame, const RecordedAgreement& agreement);

/// The line that a call starts with; what is wrong with it is in `in`.
[[nodiscard]] RecordedCall read_call_line(RecordFields& in, const SourceLists& lists,
                                          const RecordedAgreements& agreements, int line);
/// A line within the call, of this event.
void read_event_line(RecordFields& in, const std::string& event, int line, RecordedCall& call);
/// Which round of the job's one group it is.
[[nodiscard]] inline std::uint64_t slot_of(const RoundKey& key) {
  return key.epoch << 40 | key.round;
}
/// Lines of these may stand anywhere and belong to no call.
[[nodiscard]] bool stands_outside_of_calls(std::string_view event);

/// Immutable once finished; may be read from several threads. 28 bytes per call.
class CallIndex {
 public:
  CallIndex() = default;
  CallIndex(std::string path, int world_size) : path_(std::move(path)), world_size_(world_size) {}

  /// A call whose line starts at `offset`; and when all of its lines are known, those.
  void start(std::uint64_t offset, const RecordedCall& call);
  void end(std::string_view stretch);
  void finish(SourceLists lists, RecordedAgreements agreements);

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  /// Errors: BadInput (the file is not what it was).
  [[nodiscard]] Result<RecordedCall> read(std::size_t index) const;
  /// Equal where frame, sources, values and marks are, and otherwise but by a chance of 2^-64 not.
  [[nodiscard]] std::uint64_t alike(std::size_t index) const { return places_[index].alike; }
  /// The calls of each group, ascending.
  [[nodiscard]] const std::map<std::string, std::vector<std::uint32_t>>& of_groups() const {
    return calls_of_;
  }
  /// Of the calls of agreements, ascending: which round of the job each is, the same on all ranks.
  [[nodiscard]] const std::vector<std::uint64_t>& slots() const { return slots_; }

 private:
  struct Place {
    std::uint64_t offset = 0, alike = 0;
    std::uint32_t check = 0, line = 0;
  };
  std::string path_;
  int world_size_ = 1;
  std::vector<Place> places_;
  std::uint64_t end_ = 0;  // of the last call
  std::map<std::string, std::vector<std::uint32_t>> calls_of_;
  std::vector<std::uint64_t> slots_;
  std::map<std::size_t, FrameState> stored_;  // RecordedCall::stored, by call
  std::map<std::size_t, std::shared_ptr<const std::vector<Entry>>> entries_;  // likewise
  SourceLists lists_;
  RecordedAgreements agreements_;
};

}  // namespace lockstep::worker::simulator
