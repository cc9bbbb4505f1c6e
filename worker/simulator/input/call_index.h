// Calls of one rank's record. One pass over the file finds them; each is read again when it is
// needed. Memory holds each call's position in the file, and a hash that shows which ranks had the
// same inputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/agree/agreement/record.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {

class RecordFields;

/// Line that one rank wrote during a call: an action of its call machine, or an action's result.
struct RecordedEvent {
  enum class Kind : std::uint8_t { Action, Trace, Explain, Compile };
  Kind kind = Kind::Action;
  std::string text;               // Action, Explain
  TraceReport trace;              // Trace
  std::optional<Status> failure;  // Compile
  Duration took{0};               // since the previous line
  int line = 0;
};

struct RecordedCall {
  RoundKey key;
  Observation observation;
  /// Name of the frame, unique in the record: the key's name, with a number if several agreements
  /// have the same name.
  std::string frame;
  int agreement = 0;                         // 0: a frame of the job itself
  std::optional<DecisionConfig> own_config;  // configuration of its agreement; nullopt: the job's
  std::optional<shapes::Fingerprint> seen;   // observation_digest() as the rank wrote it
  RankStatus rank_status;
  std::optional<FrameState> stored;  // state that the frame started from, on its first call
  /// Entries of a saved program that the frame started from, on its first call.
  std::shared_ptr<const std::vector<Entry>> entries;
  std::vector<RecordedEvent> events;
  std::optional<CallOutcome> outcome;  // nullopt: the record ends within the call
  Duration pause{0}, closing{0};       // time before the call's first and last line
  int line = 0;
};

using SourceLists = std::map<shapes::Fingerprint, std::shared_ptr<const SourceList>>;

/// Agreement of a program, with frames and a configuration of its own.
struct RecordedAgreement {
  std::string name;
  int of_name = 1;  // number among the agreements with this name, from 1
  DecisionConfig config;
};
using RecordedAgreements = std::map<int, RecordedAgreement>;  // by number

/// Name of a frame in a replay. It has a number if an earlier agreement has the same name.
[[nodiscard]] std::string frame_of(const std::string& frame, const RecordedAgreement& agreement);

/// Reads the first line of a call. Errors are kept in `in`.
[[nodiscard]] RecordedCall read_call_line(RecordFields& in, const SourceLists& lists,
                                          const RecordedAgreements& agreements, int line);
/// Reads a later line of the call; `event` is the line's event.
void read_event_line(RecordFields& in, const std::string& event, int line, RecordedCall& call);
/// Position of a round in the one sequence that all agreements of a job share.
[[nodiscard]] inline std::uint64_t slot_of(const RoundKey& key) {
  return key.epoch << 40 | key.round;
}
/// True for events whose lines may be anywhere and belong to no call.
[[nodiscard]] bool is_outside_calls(std::string_view event);

/// Immutable once finished; may be read from several threads. Holds 28 bytes per call.
class CallIndex {
 public:
  CallIndex() = default;
  CallIndex(std::string path, int world_size) : path_(std::move(path)), world_size_(world_size) {}

  /// start() adds a call whose first line is at `offset`; then end() receives all its lines.
  void start(std::uint64_t offset, const RecordedCall& call);
  void end(std::string_view stretch);
  void finish(SourceLists lists, RecordedAgreements agreements);

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  /// Errors: BadInput (the file has changed).
  [[nodiscard]] Result<RecordedCall> read(std::size_t index) const;
  /// Hash of frame, sources, values, marks and fields. Two different calls have the same hash with
  /// probability 2^-64.
  [[nodiscard]] std::uint64_t alike(std::size_t index) const { return places_[index].alike; }
  /// Indices of the calls of each group, ascending.
  [[nodiscard]] const std::map<std::string, std::vector<std::uint32_t>>& of_groups() const {
    return calls_of_;
  }
  /// slot_of() of each call of an agreement, ascending; a call has the same slot on all ranks.
  [[nodiscard]] const std::vector<std::uint64_t>& slots() const { return slots_; }

 private:
  struct Place {
    std::uint64_t offset = 0, alike = 0;
    std::uint32_t check = 0, line = 0;
  };
  std::string path_;
  int world_size_ = 1;
  std::vector<Place> places_;
  std::uint64_t end_ = 0;  // end of the last call
  std::map<std::string, std::vector<std::uint32_t>> calls_of_;
  std::vector<std::uint64_t> slots_;
  std::map<std::size_t, FrameState> stored_;  // RecordedCall::stored, by call
  std::map<std::size_t, std::shared_ptr<const std::vector<Entry>>> entries_;  // as stored_
  SourceLists lists_;
  RecordedAgreements agreements_;
};

}  // namespace lockstep::worker::simulator
