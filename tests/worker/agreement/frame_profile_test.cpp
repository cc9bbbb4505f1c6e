// A frame that starts from a stored profile: one compile where a first run needed several, the same
// on all ranks whatever each of them had stored.
#include <filesystem>
#include <random>

#include "virtual_ranks.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::frame_profile_test {
namespace {

using coordinator::Profile;
using shapes::Dynamism;

/// Jagged rows, and a width and an int that begin to change later.
std::vector<Inputs> jagged(int ranks, std::int64_t call) {
  std::vector<Inputs> inputs;
  for (std::int64_t r = 0; r < ranks; ++r)
    inputs.push_back(Inputs()
                         .tensor("x", {call < 1 ? 4 : 4 + (r + call) % 3, 8})
                         .tensor("bias", {call < 2 ? 6 : 6 + call % 2})
                         .integer("n", call < 3 ? 5 : call)
                         .boolean("train", true)
                         .real("lr"));
  return inputs;
}

int compiles(VirtualRanks& ranks, int calls) {
  int count = 0;
  for (int call = 0; call < calls; ++call) {
    const CallOutcome outcome = ranks.joint(jagged(ranks.size(), call));
    EXPECT_NE(outcome.kind, CallOutcome::Kind::Error) << outcome_text(outcome);
    count += outcome.kind == CallOutcome::Kind::Compiled;
  }
  return count;
}

std::shared_ptr<const SourceList> sources() { return jagged(1, 0)[0].build().list; }

TEST(FrameProfile, RestartAtAnyNumberOfRanks_CompilesOnce) {
  VirtualRanks first(4);
  EXPECT_GE(compiles(first, 8), 3) << "without a profile";
  const Profile profile = profile_of(first.frame(0));
  for (int r = 1; r < 4; ++r) EXPECT_EQ(profile_of(first.frame(r)), profile) << "rank-neutral";
  for (const int size : {1, 2, 3, 4, 7}) {
    VirtualRanks again(size);
    for (int r = 0; r < size; ++r) again.frame(r).adopt(state_from(profile, *sources()));
    EXPECT_EQ(compiles(again, 8), 1) << size << " ranks";
    EXPECT_EQ(profile_of(again.frame(0)), profile) << "nothing new was seen";
  }
}

TEST(FrameProfile, OnOneRankOnly_ServesAll) {
  VirtualRanks first(3);
  EXPECT_GE(compiles(first, 8), 3);
  const Profile profile = profile_of(first.frame(0));
  for (int has = 0; has < 3; ++has) {
    VirtualRanks again(3);
    again.frame(has).adopt(state_from(profile, *sources()));
    EXPECT_EQ(compiles(again, 8), 1) << "rank " << has << " has it";
  }
}

/// What some other run may have seen of the same sources.
FrameState random_state(std::mt19937_64& random) {
  FrameState state;
  const auto size = [&] { return static_cast<std::int64_t>(random() % 4); };
  for (const char* name : {"bias", "n", "x", "gone"}) {
    Dynamism& seen = state[name];
    for (std::uint64_t n = random() % 3; n > 0; --n) {
      std::vector<std::int64_t> sizes{size(), size()};
      if (std::string_view(name) == "bias") sizes.pop_back();
      seen = join(seen, std::string_view(name) == "n" ? Dynamism::of_int(size())
                                                      : Dynamism::of_tensor(sizes));
    }
  }
  std::erase_if(state, [](const auto& source) { return source.second == Dynamism{}; });
  return state;
}

// A profile is a hint of one rank, joined with the others' and never more.
TEST(FrameProfile, DifferentOnEveryRank_DecidesAsTheirJoin) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int size = 1 + static_cast<int>(random() % 4);
    VirtualRanks own(size), joined(size);
    FrameState join;
    for (int r = 0; r < size; ++r) {
      const FrameState state = random_state(random);
      for (const auto& [name, seen] : state) join[name] = shapes::join(join[name], seen);
      own.frame(r).adopt(state);
    }
    for (int r = 0; r < size; ++r) joined.frame(r).adopt(join);
    const auto inputs = jagged(size, static_cast<std::int64_t>(random() % 4));
    EXPECT_EQ(own.joint(inputs).kind, CallOutcome::Kind::Compiled);
    EXPECT_EQ(joined.joint(inputs).kind, CallOutcome::Kind::Compiled);
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(decision_text(own.frame(r).entries[0].decision),
                decision_text(joined.frame(0).entries[0].decision));
      EXPECT_EQ(own.frame(r).state, joined.frame(0).state);
      EXPECT_EQ(own.frame(r).digest(), joined.frame(0).digest());
    }
  }
}

// Under shared_sizes ranks have sources of their own.
TEST(FrameProfile, SharedSizes_RestartCompilesOnce) {
  const auto inputs = [](std::int64_t call) {
    return std::vector<Inputs>{Inputs().tensor("a", {4 + call % 3}),
                               Inputs().tensor("b", {5 + call % 2})};
  };
  const auto run = [&](VirtualRanks& ranks) {
    int count = 0;
    for (std::int64_t call = 0; call < 6; ++call)
      count += ranks.joint(inputs(call)).kind == CallOutcome::Kind::Compiled;
    return count;
  };
  VirtualRanks first(2, {.consistency = Consistency::SharedSizes});
  EXPECT_GE(run(first), 2);
  EXPECT_EQ(profile_of(first.frame(0)), profile_of(first.frame(1)));
  VirtualRanks again(2, {.consistency = Consistency::SharedSizes});
  for (int r = 0; r < 2; ++r)
    again.frame(r).adopt(state_from(profile_of(first.frame(0)),
                                    *inputs(0)[static_cast<std::size_t>(r)].build().list));
  EXPECT_EQ(run(again), 1);
}

TEST(FrameProfile, SourceThatIsAnotherToday_ContributesNothing) {
  VirtualRanks first(2);
  EXPECT_GE(compiles(first, 8), 3);
  const Profile profile = profile_of(first.frame(0));
  const auto stays = [&](Inputs inputs, const std::string& name) {
    return state_from(profile, *inputs.build().list).count(name) == 1;
  };
  EXPECT_TRUE(stays(Inputs().tensor("x", {9, 9}), "x"));
  EXPECT_FALSE(stays(Inputs().tensor("x", {9, 9, 9}), "x")) << "another number of dims";
  EXPECT_FALSE(stays(Inputs().tensor("x", {9, 9}, DType::I64), "x")) << "another dtype";
  EXPECT_FALSE(stays(Inputs().integer("x", 9), "x")) << "another kind";
  EXPECT_TRUE(stays(Inputs().integer("x", 9), "bias")) << "another call may have it";
}

TEST(FrameProfile, SourcesThatAreGone_AreNotKept) {
  VirtualRanks ranks(2);
  for (int r = 0; r < 2; ++r) {
    ranks.frame(r).adopt({{"gone", Dynamism::of_int(3)}});
    EXPECT_TRUE(profile_of(ranks.frame(r)).empty()) << "nothing was committed";
  }
  EXPECT_EQ(compiles(ranks, 1), 1);
  EXPECT_EQ(profile_of(ranks.frame(0)).count("gone"), 0U);
  EXPECT_EQ(profile_of(ranks.frame(0)).count("x"), 1U);
}

TEST(FrameProfile, Store_ReadsOnceBeforeTheFirstCall_AndKeepsAfterACommit) {
  namespace fs = std::filesystem;
  char name[] = "/tmp/lockstep-profile-XXXXXX";
  const fs::path root = ::mkdtemp(name);
  std::vector<std::string> told;
  const auto store = [&] {
    return coordinator::ProfileStore::open({(root / "profiles").string(), "job", {}}).value();
  };
  const auto profile_in = [&](coordinator::ProfileStore* in, bool keeps) {
    return FrameProfile(in, {"f", {}}, keeps,
                        [&](const Status& status) { told.push_back(status.message); });
  };
  VirtualRanks first(1);
  EXPECT_GE(compiles(first, 8), 3);
  auto kept = store();
  const Observation seen = jagged(1, 0)[0].build();
  profile_in(kept.get(), false).keep(first.frame(0));
  CodeCache none("f");
  EXPECT_FALSE(profile_in(kept.get(), true).restore(none, seen)) << "this rank does not keep";
  profile_in(kept.get(), true).keep(first.frame(0));

  CodeCache frame("f");
  auto later = store();
  FrameProfile profile = profile_in(later.get(), true);
  const auto given = profile.restore(frame, seen);
  ASSERT_TRUE(given);
  EXPECT_EQ(*given, frame.state);
  EXPECT_EQ(frame.state, state_from(profile_of(first.frame(0)), *seen.list));
  frame.adopt({});
  EXPECT_FALSE(profile.restore(frame, seen)) << "only once";
  EXPECT_TRUE(frame.state.empty());
  EXPECT_FALSE(profile_in(nullptr, true).restore(frame, seen)) << "a job without an id";
  fs::remove_all(root);
  profile.keep(first.frame(0));
  EXPECT_EQ(told.size(), 1U) << "a disk that takes nothing is said and no more";
}

TEST(FrameProfile, LibraryCall_StartsFromTheProfileOfTheSameFunction) {
  namespace fs = std::filesystem;
  char name[] = "/tmp/lockstep-profile-XXXXXX";
  const fs::path root = ::mkdtemp(name);
  const auto group = collectives::fake_communicator(Rank{0}, 1).value();
  const auto run = [&](const shapes::Fingerprint& content) {
    auto store = coordinator::ProfileStore::open({(root / "profiles").string(), "job", {}}).value();
    Agreement agreement(*group, "world", {});
    agreement.use_profiles(*store, true, {});
    agreement.identify("step", content);
    int built = 0;
    for (std::int64_t call = 0; call < 6; ++call) {
      const auto agreed = agreement.agree("step", jagged(1, call)[0].build(),
                                          [&](int, const Decision& decision) -> Result<Built> {
                                            ++built;
                                            return Built{decision.digest(), {}};
                                          });
      EXPECT_TRUE(agreed) << agreed.error().text();
    }
    return built;
  };
  EXPECT_GE(run({1, 1}), 3);
  EXPECT_EQ(run({1, 1}), 1);
  EXPECT_GE(run({1, 2}), 3) << "another function of that name";
  EXPECT_EQ(run({1, 1}), 1);
  fs::remove_all(root);
}

}  // namespace
}  // namespace lockstep::worker::frame_profile_test
