// Runs a program: every rank is a fiber that drives the production agreement (CallDriver) over the
// simulated network, all in one thread. What comes of it is recorded, not judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "program.h"

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/agreement/action.h>

namespace lockstep::fuzz {

/// One operation of a group (a call or a round of its own) as one rank saw it end.
struct Ended {
  enum class Kind : std::uint8_t { Call, Round, More, Resync, Audit };
  Kind kind = Kind::Round;
  int rank = 0;
  std::size_t group = 0;
  std::uint64_t ordinal = 0;  // in the group, counted by this rank; the epoch above bit 32
  std::size_t step = 0;       // Program::steps.size(): the end of the job
  int turn = 0;               // of a More step; -1: the round at start
  std::uint64_t number = 0;   // of a call: as the agreement numbers it, the epoch above bit 32
  std::string frame;          // of a call
  worker::CallOutcome outcome;
  bool transport = false;       // the network gave up on it
  shapes::Fingerprint graph;    // what runs, if anything
  shapes::Fingerprint objects;  // what was built and loaded for it; of an audit: its collectives
  shapes::Fingerprint toolchain_key;    // of those objects
  std::optional<Status> finding;        // of an audit
  std::uint64_t past = 0;               // digest of the frame afterwards
  int live = 0;                         // entries of the frame
  bool fits = true;                     // the entry fits this rank's own inputs
  std::vector<std::int64_t> uniform{};  // this rank's values of what the entry needs alike
  std::optional<Code> struck;           // the error that a fault on this rank must make of it
  bool broke_promise =
      false;             // by this rank: its peers may hear of the error in the next round only
  bool garbled = false;  // this rank garbled a payload in it
  std::uint64_t payloads = 0;  // received in it
  std::uint64_t longest = 0;   // of them, in bytes
  std::uint64_t at = 0;        // virtual time
};

/// In one line, for reports.
[[nodiscard]] std::string seen(const Ended& one);

struct RunOptions {
  std::uint64_t network_seed = 0;
  bool record = false;  // keeps the log of the network
};

struct Run {
  std::vector<Ended> ended;  // in the order of ending
  /// Ranks that were still waiting when nothing could happen any more.
  std::vector<int> waiting;
  /// Ranks that a fault has really taken out of the job.
  RankSet taken_out;
  bool endless = false;                // more events than any job needs
  std::uint64_t most_in_vote = 0;      // messages received by a rank beyond its bound in one vote
  std::uint64_t most_in_exchange = 0;  // messages received by a rank in one payload round
  std::uint64_t longest_vote = 64, shortest_vote = 64;  // bytes
  std::uint64_t votes = 0, exchanges = 0, events = 0;
  std::uint64_t prefetched = 0;                   // calls that were ahead when they were made
  std::uint64_t received = 0, wrong_objects = 0;  // units: from other ranks; that no compiler made
  std::uint64_t local = 0, not_local = 0;  // calls made alone; those of them with any traffic
  bool audit_changes = false;              // an audit changed a frame
  /// By group, epoch and call: the objects that were built, and how often.
  std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, std::map<std::string, int>> built;
  std::vector<std::string> log;

  /// Covers everything that ended, with its time.
  [[nodiscard]] std::uint64_t digest() const;
};

/// A pure function of its arguments.
[[nodiscard]] Run run(const Program& program, const RunOptions& options);

}  // namespace lockstep::fuzz
