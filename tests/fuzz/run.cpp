#include "run.h"

#include <algorithm>

#include "restart.h"
#include "simulated_process.h"
#include <fmt/format.h>

namespace lockstep::fuzz {
namespace {

/// More than any job of the generator's sizes makes, by far.
constexpr std::uint64_t kMostEvents = 200'000;
/// As many as a job has at most, and pauses, together are below the deadline.
constexpr Duration kStop = std::chrono::seconds(15);

class Cluster {
 public:
  Cluster(const Program& program, const RunOptions& options)
      : program_(program),
        promises_(program.promises()),
        network_({.size = program.ranks,
                  .seed = options.network_seed,
                  .most_delay = std::chrono::microseconds(options.network_seed % 3 == 0 ? 2 : 500),
                  .deadline = kDeadline,
                  .record = options.record}) {}

  Run run() {
    start();
    for (auto& process : processes_) process->resume();
    while (run_.events < kMostEvents) {
      move_on();
      strike();
      if (!network_.step()) break;
      ++run_.events;
    }
    move_on();
    run_.endless = run_.events >= kMostEvents;
    for (std::size_t r = 0; r < processes_.size(); ++r) {
      if (processes_[r]->over()) continue;
      run_.waiting.push_back(static_cast<int>(r));
      processes_[r]->abandon();
    }
    run_.log = network_.log();
    return std::move(run_);
  }

  /// What the frames have seen. Requires that run() is over.
  LeftProfiles profiles() {
    LeftProfiles out;
    for (std::size_t g = 0; g < program_.groups.size(); ++g) {
      const auto lowest = static_cast<std::size_t>(program_.groups[g].members.lowest().value);
      for (auto& [frame, profile] : processes_[lowest]->profiles(g))
        out[{g, frame}] = std::move(profile);
    }
    return out;
  }

 private:
  void start() {
    LeftProfiles same, other;
    if (!program_.starts.empty()) {
      same = left_by(earlier_run(program_, false));
      other = left_by(earlier_run(program_, true));
    }
    for (int r = 0; r < program_.ranks; ++r) {
      if (!program_.starts.empty())
        disks_.push_back(std::make_unique<ProfileDisk>(
            program_, program_.starts[static_cast<std::size_t>(r)], same, other,
            scratch_.path(fmt::format("profiles of {}", r))));
      processes_.push_back(
          std::make_unique<SimulatedProcess>(program_, promises_, network_, r, scratch_,
                                             disks_.empty() ? nullptr : disks_.back().get(), run_));
    }
  }

  static LeftProfiles left_by(const Program& program) {
    Cluster earlier(program, {});
    (void)earlier.run();
    return earlier.profiles();
  }

  /// Lets every rank go on that can.
  void move_on() {
    for (auto ranks = network_.take_ended(); !ranks.empty(); ranks = network_.take_ended())
      for (const Rank rank : ranks) resume(static_cast<std::size_t>(rank.value));
    for (std::size_t r = 0; r < processes_.size(); ++r)
      if (processes_[r]->take_woken()) resume(r);
  }

  void resume(std::size_t r) {
    if (!processes_[r]->over()) processes_[r]->resume();
  }

  /// The faults that are due at this event.
  void strike() {
    for (const Fault& fault : program_.faults) {
      if (fault.amount != run_.events || at_step(fault.kind)) continue;
      const Rank rank{fault.rank};
      const Instant now = network_.clock().now();
      const bool over = processes_[static_cast<std::size_t>(fault.rank)]->over();
      if (fault.kind == Fault::Kind::Stop && !over && !stopped_.contains(rank)) {
        network_.stop(rank, now, now + kStop);
        processes_[static_cast<std::size_t>(fault.rank)]->suspend(now + kStop);
        stopped_.insert(RankSet::of(rank));
      }
      if (fault.kind == Fault::Kind::Freeze && !over) {
        network_.stop(rank, now);
        run_.taken_out.insert(RankSet::of(rank));
      }
      if (fault.kind == Fault::Kind::Crash && !over) {
        network_.crash(rank, now);
        run_.taken_out.insert(RankSet::of(rank));
        processes_[static_cast<std::size_t>(fault.rank)]->abandon();
      }
    }
  }

  const Program& program_;
  std::vector<std::vector<std::size_t>> promises_;
  Scratch scratch_;
  std::vector<std::unique_ptr<ProfileDisk>> disks_;  // by rank; empty: no profiles
  Run run_;
  collectives::VirtualNetwork network_;
  std::vector<std::unique_ptr<SimulatedProcess>> processes_;
  RankSet stopped_;  // once is enough: what is added up may pass the deadline
};

std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  return (seed ^ value) * 0x9E3779B97F4A7C15ull + (seed >> 29);
}

}  // namespace

std::uint64_t Run::digest() const {
  std::uint64_t digest = events;
  for (const Ended& one : ended) {
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(one.rank), static_cast<std::uint64_t>(one.group), one.ordinal,
          one.at, one.past, one.graph.low, static_cast<std::uint64_t>(one.outcome.entry)})
      digest = mixed(digest, value);
    digest = mixed(digest, shapes::fingerprint(worker::outcome_text(one.outcome)).low);
  }
  return digest;
}

std::string seen(const Ended& one) {
  return fmt::format("rank {}: {} (graph {}, past {:x})", one.rank, outcome_text(one.outcome),
                     one.graph.text().substr(0, 6), one.past);
}

Run run(const Program& program, const RunOptions& options) {
  return Cluster(program, options).run();
}

}  // namespace lockstep::fuzz
