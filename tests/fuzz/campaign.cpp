#include "campaign.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "shrink.h"
#include <fmt/format.h>

namespace lockstep::fuzz {

void Tally::add(const Program& program, const Verdict& verdict) {
  ++seeds;
  runs += 2;
  if (verdict.oracle) ++oracle;
  votes += verdict.run.votes;
  exchanges += verdict.run.exchanges;
  events += verdict.run.events;
  operations += verdict.run.ended.size();
  prefetched += verdict.run.prefetched, received += verdict.run.received;
  local += verdict.run.local, restarts += !program.starts.empty();
  for (const Step& step : program.steps) ++steps[std::string(step_name(step.kind))];
  for (const Fault& fault : program.faults) ++faults[std::string(fault_name(fault.kind))];
  for (const Ended& one : verdict.run.ended) {
    constexpr const char* kKinds[] = {"reused", "compiled", "fallback", "error"};
    constexpr const char* kRounds[] = {"", "round", "more", "resync", "audited"};
    findings += one.finding.has_value();
    if (one.outcome.error)
      ++outcomes[std::string(code_name(one.outcome.error->code))];
    else
      ++outcomes[one.kind == Ended::Kind::Call ? kKinds[static_cast<int>(one.outcome.kind)]
                                               : kRounds[static_cast<int>(one.kind)]];
  }
}

void Tally::add(const Tally& other) {
  seeds += other.seeds, runs += other.runs, operations += other.operations;
  votes += other.votes, exchanges += other.exchanges, events += other.events;
  oracle += other.oracle, prefetched += other.prefetched;
  received += other.received, local += other.local, restarts += other.restarts;
  findings += other.findings;
  for (const auto& [name, count] : other.outcomes) outcomes[name] += count;
  for (const auto& [name, count] : other.faults) faults[name] += count;
  for (const auto& [name, count] : other.steps) steps[name] += count;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

Tally examine_seeds(const Campaign& campaign) {
  constexpr std::uint64_t kChunk = 256;
  const auto started = std::chrono::steady_clock::now();
  const auto late = [&] {
    return campaign.minutes > 0 &&
           std::chrono::steady_clock::now() - started >
               std::chrono::duration<double, std::ratio<60>>(campaign.minutes);
  };
  std::atomic<std::uint64_t> next{campaign.first}, failed{0};
  std::mutex mutex;
  Tally all;
  const auto work = [&] {
    Tally mine;
    while (failed < campaign.most_failures && !late()) {
      const std::uint64_t from = next.fetch_add(kChunk);
      if (from > campaign.last) break;
      const std::uint64_t to = std::min(campaign.last, from + kChunk - 1);
      for (std::uint64_t seed = from; seed <= to && failed < campaign.most_failures; ++seed) {
        const Program program = random_program(seed);
        const Verdict verdict = examine(program, seed);
        mine.add(program, verdict);
        if (!verdict.violation) continue;
        mine.failures.push_back(seed);
        ++failed;
      }
    }
    const std::lock_guard lock(mutex);
    all.add(mine);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < campaign.jobs; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::sort(all.failures.begin(), all.failures.end());
  return all;
}

std::string failure_text(std::uint64_t seed) {
  const Program program = random_program(seed);
  const Verdict verdict = examine(program, seed);
  if (!verdict.violation)
    return fmt::format("seed {}\n{}nothing is wrong with it\n", seed, program_text(program));
  const Program least = shrink(program, [&](const Program& smaller) {
    const auto violation = examine(smaller, seed).violation;
    return violation && violation->invariant == verdict.violation->invariant;
  });
  return fmt::format("seed {}\n{}{}: {}\n\nsmallest program that fails alike:\n{}{}\n", seed,
                     program_text(program), verdict.violation->invariant, verdict.violation->text,
                     program_text(least), examine(least, seed).violation->text);
}

}  // namespace lockstep::fuzz
