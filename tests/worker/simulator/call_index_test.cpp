#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "random_scenario.h"
#include "record_directory.h"
#include "recorded_job.h"
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator::call_index_test {
namespace {

namespace fs = std::filesystem;

/// All that a call says, as text.
std::string text_of(const RecordedCall& call) {
  std::ostringstream out;
  out << call.line << " " << call.key.text() << " " << observation_digest(call.observation).text()
      << " " << call.pause.count() << " " << call.closing.count() << " " << call.rank_status.pending
      << (call.outcome ? outcome_text(*call.outcome) : "no end") << (call.stored ? " stored" : "");
  for (const RecordedEvent& event : call.events)
    out << "\n"
        << event.line << " " << static_cast<int>(event.kind) << " " << event.text << " "
        << event.trace.graph.text() << event.trace.guards.size() << " " << event.took.count();
  return out.str();
}

/// Every call of every rank, held: the naive way.
using Held = std::vector<std::vector<RecordedCall>>;

std::string text_of(const std::vector<Field>& fields) {
  std::string out;
  for (const auto& [spec, value] : fields)
    out += spec.name + ": " + spec_text(spec) + " " + value_text(spec.type, value) + "\n";
  return out;
}

/// The calls as a scenario, from all that is held: the i-th calls of a group belong together, in
/// the order in which the lowest ranks made them; ranks with equal values are a group.
std::vector<ScenarioCall> naive_calls(const Held& held) {
  std::vector<std::vector<const RecordedCall*>> joint;
  std::map<std::pair<std::string, std::size_t>, std::size_t> index;
  for (std::size_t r = 0; r < held.size(); ++r) {
    std::map<std::string, std::size_t> made;
    for (const RecordedCall& call : held[r]) {
      const auto [at, fresh] =
          index.try_emplace({call.key.group, made[call.key.group]++}, joint.size());
      if (fresh) joint.emplace_back(held.size());
      joint[at->second][r] = &call;
    }
  }
  std::vector<ScenarioCall> out;
  for (const auto& of : joint) {
    ScenarioCall& call = out.emplace_back();
    std::map<std::tuple<std::string, shapes::Fingerprint, std::vector<std::int64_t>,
                        std::vector<Mark>, std::string>,
             std::size_t>
        alike;
    for (std::size_t r = 0; r < of.size(); ++r) {
      if (of[r] == nullptr) continue;
      const Observation& seen = of[r]->observation;
      const auto [at, fresh] = alike.try_emplace(
          {of[r]->key.frame, seen.list->digest(), seen.values, seen.marks, text_of(seen.fields)},
          call.groups.size());
      if (fresh) call.groups.push_back({{}, of[r]->key.frame, {}});
      const RankSet rank = RankSet::of(Rank{static_cast<std::int32_t>(r)});
      call.groups[at->second].ranks.insert(rank);
      call.present.insert(rank);
    }
  }
  return out;
}

/// Reads the record and holds everything against what its first reading saw.
void check(const Directory& directory, std::uint64_t seed) {
  Held held;
  const auto visit = [&](const RankRecord& rank, const RecordedCall& call) {
    held.resize(
        std::max<std::size_t>(held.size(), static_cast<std::size_t>(rank.header.world_size)));
    held[static_cast<std::size_t>(rank.header.rank.value)].push_back(call);
  };
  const auto ranks = read_record(directory.path(), visit);
  ASSERT_TRUE(ranks.has_value()) << ranks.error().message;
  held.resize(ranks->size());
  for (std::size_t r = 0; r < ranks->size(); ++r) {
    const CallIndex& calls = (*ranks)[r].calls;
    ASSERT_EQ(calls.size(), held[r].size());
    for (std::size_t i = calls.size(); i-- > 0;) {
      const auto call = calls.read(i);
      ASSERT_TRUE(call.has_value()) << call.error().message;
      ASSERT_EQ(text_of(*call), text_of(held[r][i])) << "seed " << seed;
    }
  }
  const Scenario inputs = scenario_of(*ranks);
  const std::vector<ScenarioCall> naive = naive_calls(held);
  ASSERT_EQ(inputs.count(), naive.size()) << "seed " << seed;
  RankPartition apart(inputs.world_size);
  for (std::size_t c = 0; c < naive.size(); ++c) {
    const auto call = inputs.call(c);
    apart.add(naive[c]);
    ASSERT_EQ(call->present, naive[c].present) << "seed " << seed;
    ASSERT_EQ(call->groups.size(), naive[c].groups.size()) << "seed " << seed;
    for (std::size_t g = 0; g < call->groups.size(); ++g) {
      ASSERT_EQ(call->groups[g].ranks, naive[c].groups[g].ranks) << "seed " << seed;
      ASSERT_EQ(call->groups[g].frame, naive[c].groups[g].frame);
      const auto lowest = static_cast<std::size_t>(call->groups[g].ranks.lowest().value);
      const Observation seen = call->groups[g].observation();
      const bool there =
          std::any_of(held[lowest].begin(), held[lowest].end(), [&](const auto& one) {
            return one.observation.list->digest() == seen.list->digest() &&
                   one.observation.values == seen.values && one.observation.fields == seen.fields;
          });
      ASSERT_TRUE(there) << "seed " << seed;
    }
  }
  const auto classes = classes_of(inputs), expected = apart.classes();
  ASSERT_EQ(classes.size(), expected.size()) << "seed " << seed;
  for (std::size_t c = 0; c < classes.size(); ++c) ASSERT_EQ(classes[c].ranks, expected[c].ranks);
}

TEST(CallIndex, RandomJobs_AreReadAgainAsTheyWere) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Directory directory;
    const Scenario scenario = random_scenario(seed);
    record_job(scenario, directory.path());
    ASSERT_NO_FATAL_FAILURE(check(directory, seed));
    // Cut somewhere in a rank's file, behind its first line.
    const std::string whole = contents(directory.file(0));
    std::mt19937_64 random(seed);
    const std::size_t first = whole.find('\n') + 1;
    if (first == whole.size()) continue;
    std::ofstream(directory.file(0)) << whole.substr(0, first + random() % (whole.size() - first));
    ASSERT_NO_FATAL_FAILURE(check(directory, seed));
  }
}

TEST(CallIndex, GroupsThatOverlap_HaveTheirCallsTogether) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    const Directory directory;
    std::mt19937_64 random(seed);
    const int world = static_cast<int>(2 + random() % 4);
    const char* const names[] = {"a", "b", "c", "world"};
    for (int r = 0; r < world; ++r) {
      auto recorder = Recorder::open(directory.path(), {world, Rank{r}, {}, "test"});
      ASSERT_TRUE(recorder.has_value());
      if (random() % 2 == 0) (*recorder)->group("a", RankSet::all(world));
      for (std::uint64_t i = 0; i < random() % 9; ++i) {
        RoundKey key;
        key.group = names[random() % 4];
        key.frame = random() % 2 == 0 ? "f" : "g";
        key.round = key.call = i;
        ScenarioValues values;
        values["x"].sizes = {static_cast<std::int64_t>(random() % 3), 4};
        CodeCache frame(key.frame);
        const CallMachine machine(Rank{r}, world, {}, key, frame, observation_of(values));
        (*recorder)->began(machine);
        if (random() % 3 == 0) (*recorder)->round(key, {});
        (*recorder)->ended(machine, {}, {});
        if (random() % 3 == 0) (*recorder)->group("b", RankSet::all(world));
      }
    }
    ASSERT_NO_FATAL_FAILURE(check(directory, seed));
  }
}

TEST(CallIndex, FileChangedAfterwards_IsOneErrorWithItsLine) {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Directory directory;
    const Scenario scenario = random_scenario(seed);
    record_job(scenario, directory.path());
    const auto ranks = read_record(directory.path());
    ASSERT_TRUE(ranks.has_value());
    const int rank = scenario.world_size - 1;
    const CallIndex& calls = (*ranks)[static_cast<std::size_t>(rank)].calls;
    if (calls.empty()) continue;
    const std::string whole = contents(directory.file(rank));
    std::mt19937_64 random(seed);
    const std::size_t first = whole.find("{\"event\":\"call\"");
    const std::size_t at = first + random() % (whole.size() - first);
    std::string changed = whole;
    if (seed % 3 == 0)
      changed.resize(at);
    else
      changed[at] = changed[at] == '1' ? '2' : '1';
    std::ofstream(directory.file(rank)) << changed;
    const auto again = replay(*ranks);
    ASSERT_FALSE(again.has_value()) << "seed " << seed;
    EXPECT_NE(again.error().message.find(": the file was changed while it was read."),
              std::string::npos)
        << again.error().message;
    const Scenario inputs = scenario_of(*ranks);
    (void)run_uncoordinated(inputs);
    (void)explain_record(*ranks);
    ++seen;
  }
  EXPECT_GE(seen, 30);
}

// A job that goes on while its record is read.
TEST(CallIndex, FileThatGrows_IsReadAsFarAsItWas) {
  const Directory directory;
  record_job(random_scenario(3), directory.path());
  const auto ranks = read_record(directory.path());
  ASSERT_TRUE(ranks.has_value());
  const auto before = replay(*ranks);
  ASSERT_TRUE(before.has_value());
  for (std::size_t r = 0; r < ranks->size(); ++r)
    std::ofstream(directory.file(static_cast<int>(r)), std::ios::app) << "{\"event\":\"call\"";
  const auto after = replay(*ranks);
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_EQ(result_json(after->result), result_json(before->result));
}

}  // namespace
}  // namespace lockstep::worker::simulator::call_index_test
