// Errors after which the job goes on, one test per row of the table in collectives/README.md: what
// goes wrong in the program. All ranks have the same error, with a table that names the rank; the
// frame's next call works, other frames do, and their numbers are those of plain loops. Branches
// that diverge are in job_failure_test.cpp.
#include <stdexcept>

#include "recoverable_ranks.h"

namespace lockstep::worker::recoverable_test {
namespace {

class Recoverable : public RecoverableRanks {
 protected:
  [[nodiscard]] RankSet guilty() const { return RankSet::of(Rank{size - 1}); }
  using Spoil = std::function<void(Parcel&)>;

  /// `spoil` makes the last rank's parcel one that a check refuses: in a call that compiles, in one
  /// that runs an entry which has served before, in one that was prefetched, and in an interpreted
  /// one.
  void expect_recovers(const Spoil& spoil, const std::string& text) {
    const auto spoilt = [&](int call) {
      Parcel in = parcel(call);
      if (last) spoil(in);
      return in;
    };
    auto other = frame("other"), step = frame("step", 2);
    expect_right(other, 1);
    expect_error(step(spoilt(2)), Code::RuntimeAssert, guilty(), text);
    for (int call = 3; call < 8; ++call) {
      expect_right(step, call, 2);
      expect_error(step(spoilt(call)), Code::RuntimeAssert, guilty(), text);
    }
    EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
    step.prefetch(spoilt(8));
    step.prefetch(parcel(9));
    expect_error(step(spoilt(8)), Code::RuntimeAssert, guilty(), text);
    expect_right(step, 9, 2);
    said_while([&] { expect_goes_on(step, 2, other); });

    restart({.automatic_dynamic = false, .recompile_limit = 1, .settle = false});
    auto again = frame("again", 2), beside = frame("beside");
    said_while([&] {
      expect_right(beside, 1);
      expect_right(again, 1, 2);
      expect_error(again(spoilt(2)), Code::RuntimeAssert, guilty(), text);
      EXPECT_TRUE(contains(again.last_call(), "interpreted")) << again.last_call();
      expect_goes_on(again, 2, beside);
    });
  }
};

TEST_F(Recoverable, TraceError_NotAnException_InALaterCompileWithAPrefetchOut) {
  bool throws = false;
  auto other = frame("other");
  auto step = job->frame<Parcel, Y>("step", [&](const Parcel& in) {
    if (throws && last) throw 42;
    return delivered(in, 2);
  });
  said_while([&] {
    expect_right(other, 1);
    expect_right(step, 1, 2);
    throws = true;
    expect_error(step(parcel(2)), Code::TraceError, guilty(), "is not a std::exception");
    expect_right(step, 1, 2);  // the entry that was there stays
    step.prefetch(parcel(2));
    step.prefetch(parcel(3));
    expect_error(step(parcel(2)), Code::TraceError, guilty(), "is not a std::exception");
    throws = false;
    expect_right(step, 3, 2);
    expect_goes_on(step, 2, other);
  });
}

TEST_F(Recoverable, TraceError_OfTheLanguageOnOneRank) {
  bool asks = true;
  auto other = frame("other");
  auto step = job->frame<Parcel, Y>("step", [&](const Parcel& in) {
    if (asks && last && tolist(in.counts)[0] > 1) return delivered(in, 3);
    return delivered(in, 2);
  });
  said_while([&] {
    expect_right(other, 1);
    expect_error(step(parcel(2)), Code::TraceError, guilty(), "recoverable_test.cpp:");
    asks = false;
    expect_goes_on(step, 2, other);
  });
}

TEST_F(Recoverable, RuntimeAssert_BeforeTheDataDependentAllToAll) {
  // More is counted than there is: known to this rank before it sends anything.
  expect_recovers(
      [](Parcel& in) {
        Array counts = in.counts.array().clone();
        counts.set(0, counts.at(0) + 1);
        in.counts = counts;
      },
      "recoverable_ranks.h:");
}

TEST_F(Recoverable, RuntimeAssert_OnReceivedCounts_BeforeTheRowsAreSent) {
  // What the others send is more than this rank has room for.
  expect_recovers([](Parcel& in) { in.room = integers({-1}); }, "there is room for the rows");
}

TEST_F(Recoverable, RuntimeAssert_AfterTheDataDependentAllToAll) {
  // Every rank but the last has an entry for what it gets.
  auto other = frame("other"), step = frame("step", 2);
  const auto spoilt = [&](int call) {
    Parcel in = parcel(call);
    Array rows = in.rows.array().clone();
    std::int64_t at = 0;
    for (int p = 0; p < size - 1; ++p) at += rows_to(rank, p, call);
    if (rank == 0 && rows_to(0, size - 1, call) > 0) rows.set(at, 99);
    in.rows = rows;
    return in;
  };
  said_while([&] {
    expect_right(other, 1);
    int failed = 0;
    for (int call = 2; call < 8; ++call) {
      if (rows_to(0, size - 1, call) > 0) {
        ++failed;
        expect_error(step(spoilt(call)), Code::RuntimeAssert, guilty(), "99");
      }
      expect_right(step, call, 2);
    }
    EXPECT_EQ(failed, 4);
    expect_goes_on(step, 2, other);
  });
}

TEST_F(Recoverable, RecompileLimit_AllRanksFallBackTogetherAndSaySo) {
  restart({.automatic_dynamic = false, .recompile_limit = 2, .settle = false});
  auto other = frame("other"), step = frame("step", 2);
  const std::string said = said_while([&] {
    for (int round = 0; round < 2; ++round)
      for (int call = 1; call < 7; ++call) {
        expect_right(step, call, 2);
        const std::string how = call > 2 ? "interpreted" : round == 0 ? "compiled" : "reused";
        EXPECT_TRUE(contains(step.last_call(), how)) << call << ": " << step.last_call();
      }
  });
  const std::string line = "lockstep: step has reached its recompile limit of 2; ";
  const std::size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(line, at + 1), std::string::npos) << "said once\n" << said;
  EXPECT_TRUE(contains(said.substr(at),
                       "are interpreted from here on, on all ranks (entry 1 does not fit here: "))
      << said;
  EXPECT_TRUE(contains(
      said.substr(at),
      "turn automatic_dynamic on, mark the dims that vary dynamic, or raise recompile_limit"))
      << said;
  said_while([&] { expect_goes_on(step, 2, other); });
}

}  // namespace
}  // namespace lockstep::worker::recoverable_test
