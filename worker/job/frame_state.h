// The state of a frame of a job between calls. Internal to the frame's own files.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/agree/agreement/frame_agreement.h>
#include <lockstep/worker/agree/exchange/constraints.h>
#include <lockstep/worker/job/frame.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// A graph that can be run: a built one, or one to be interpreted.
struct FrameRunner::Compiled {
  Graph graph;        // set if it is interpreted
  Decision decision;  // under which the graph was traced
  shapes::Fingerprint fingerprint;
  std::uint64_t nodes = 0;
  std::string collectives;                 // one per line; what an audit compares
  std::unique_ptr<Executable> executable;  // null: interpreted
  Inputs inputs;                           // of the last run; the map is reused

  /// The graph as it was traced.
  [[nodiscard]] const Graph& traced() const {
    return executable ? executable->program().graph : graph;
  }
};

struct FrameRunner::State {
  /// Where the graphs of a frame come from.
  enum class Origin : std::uint8_t {
    Function,    // traced here
    Controller,  // traced by the controller
    File,        // a saved program
  };
  State(JobContext& context, GroupContext* group, const std::string& name, int number,
        const FrameOptions& options)
      : job(context),
        audited(options.audit),
        consistency(audited ? Consistency::Local
                            : options.consistency.value_or(context.decision.consistency)),
        over(group != nullptr ? *group : context.alone),
        agreed(context.agreeing(over, consistency)),
        calls(*agreed.rounds, key_of(name, options, group != nullptr)),
        constraints(options.constraints),
        complex_branches(options.complex_branches),
        recordings(options.recordings),
        index(number) {
    calls.use_profile({profiles_of(job, agreed),
                       {named_in(agreed.group, name), {}},
                       keeps(job, agreed),
                       [&context](const Status& status) { context.tell(status.message); }});
    counts.frame = name;
    counts.group = over.group.name;
    counts.alone = &agreed == &job.alone;
    counts.shared = &over == &job.everyone && consistency == Consistency::SameGraph;
    if (group == nullptr)
      unusable = not_of(options.group, name);
    else if (!over.frames.insert(name).second)
      taken = name_taken(name);
  }
  /// The key of the frame's calls. Includes the options that must be the same on all ranks, and the
  /// name of the frame that was made before this one over the same ranks.
  RoundKey key_of(const std::string& name, const FrameOptions& options, bool usable) const {
    RoundKey key = agreed.round(RoundKey::Kind::Call, name);
    if (consistency != job.decision.consistency) key.consistency = consistency;
    key.options = text_of(options);
    if (usable && consistency != Consistency::Local)
      key.after = std::exchange(over.last_frame, name);
    return key;
  }
  /// The store of the job's profiles, if any; null for frames that a rank decides alone.
  static coordinator::ProfileStore* profiles_of(const JobContext& job, const GroupContext& agreed) {
    return &agreed == &job.alone ? nullptr : job.profiles;
  }
  /// True if this rank stores profiles: it is the lowest of the members that see its directory of
  /// profiles.
  static bool keeps(const JobContext& job, const GroupContext& agreed) {
    const RankSet& members = agreed.group.members;
    const RankSet sharers = members.minus(members.minus(job.profile_sharers));
    return !sharers.empty() && sharers.lowest().value == job.rank();
  }
  static std::string text_of(const FrameOptions& options) {
    std::string out;
    if (options.complex_branches == shapes::ShapeOptions::Complex::Assert)
      out = "complex branches as asserts";
    for (const std::string& constraint : options.constraints)
      out += fmt::format("{}`{}`", out.empty() ? "" : ", ", constraint);
    if (options.program && options.consistency != Consistency::Local && !options.audit)
      out += fmt::format("{}saved program {}", out.empty() ? "" : ", ",
                         options.program->text().substr(0, 16));
    if (options.recordings) {
      out += fmt::format("{}at most {} recordings", out.empty() ? "" : ", ",
                         options.recordings->limit);
      for (const auto& [source, sizes] : options.recordings->sizes)
        out += fmt::format(", {} of {}", source, fmt::join(sizes, " "));
    }
    return out;
  }
  /// The frame's name for profiles. It contains no ranks, so the sets of a group share a profile,
  /// and so do jobs of any size.
  static std::string named_in(const Group& group, const std::string& frame) {
    return group.name.empty() ? frame : group.name + "/" + frame;
  }
  static Status not_of(const Group& group, const std::string& frame) {
    return bad_input(
        fmt::format("frame {}: this rank is in no set of group {}; only its members make and "
                    "call its frames",
                    frame, group.name),
        group.name);
  }

  static Status name_taken(const std::string& frame) {
    return bad_input(
        fmt::format("a frame {} has been made before; make each frame once and call it as often "
                    "as needed, and give another frame another name",
                    frame));
  }

  [[nodiscard]] CodeCache& cache() { return calls.cache(); }
  [[nodiscard]] const CodeCache& cache() const { return calls.cache(); }

  JobContext& job;
  bool audited;
  AuditLedger findings;
  Consistency consistency;
  GroupContext& over;              // the ranks that run the frame and its collectives
  GroupContext& agreed;            // the ranks that agree on its calls: `over`, or this rank alone
  std::optional<Status> unusable;  // error of all calls on this rank, which then make no round
  std::optional<Status> taken;     // the frame's name is taken: joint error of all calls
  FrameAgreement calls;
  Constraints constraints;
  shapes::ShapeOptions::Complex complex_branches;
  std::optional<CaptureOptions> recordings;
  int index;
  Origin origin = Origin::Function;
  DistantTracer tracer;     // for Origin::Controller
  std::string loaded_from;  // for Origin::File: the program's path
  std::map<int, Compiled> entries;
  Observation spare;
  bool told_fallback = false;
  FrameCounts counts;
};

}  // namespace lockstep::worker
