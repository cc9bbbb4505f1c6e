// Many seeds, one after the other, and what came of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "check.h"

namespace lockstep::fuzz {

/// What many seeds came to. Sums of two are the tally of both.
struct Tally {
  std::uint64_t seeds = 0, runs = 0, operations = 0, votes = 0, exchanges = 0, events = 0,
                oracle = 0;
  std::map<std::string, std::uint64_t> outcomes;  // of calls, as rank saw them: by code or kind
  std::map<std::string, std::uint64_t> faults;    // planned, by kind
  std::map<std::string, std::uint64_t> steps;     // planned, by kind
  std::uint64_t prefetched = 0;                   // calls, as ranks made them
  std::uint64_t received = 0;                     // compile units, from other ranks
  std::uint64_t restarts = 0;                     // jobs that start from profiles
  std::uint64_t local = 0;                        // calls that a rank made alone
  std::uint64_t findings = 0;                     // of audits, as ranks saw them
  std::vector<std::uint64_t> failures;            // seeds

  void add(const Program& program, const Verdict& verdict);
  void add(const Tally& other);
};

struct Campaign {
  std::uint64_t first = 0, last = 0;  // both included
  int jobs = 1;                       // threads
  double minutes = 0;                 // 0: until the last seed
  std::uint64_t most_failures = 1;    // then it stops
};

/// Examines the seeds. What it finds of a seed does not depend on `jobs`.
[[nodiscard]] Tally examine_seeds(const Campaign& campaign);

/// A failing seed for people: program, violation, the smallest program that fails alike.
[[nodiscard]] std::string failure_text(std::uint64_t seed);

}  // namespace lockstep::fuzz
