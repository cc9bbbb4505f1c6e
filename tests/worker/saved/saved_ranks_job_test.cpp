// Saved programs and what ranks have in common: frames of every consistency, each rank with its own
// file, and other numbers of ranks than saved it.
#include <functional>

#include "job_folder.h"

#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker::saved_ranks_job_test {
namespace {

class SavedRanks : public JobFolder {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder + "/" + name + ".lsp";
  }
  [[nodiscard]] std::string own_file() const { return file("of" + std::to_string(rank)); }
  void start_again() {
    ASSERT_TRUE(finish());
    start({});
  }
  /// f64[rows, 2] with values of this rank's own.
  [[nodiscard]] Tensor input(std::int64_t rows) const {
    Array out(DType::F64, {rows, 2});
    for (std::int64_t i = 0; i < out.elements(); ++i)
      out.set(i, 0.25 * static_cast<double>((5 * i + 3 * rank) % 11) - 1);
    return out;
  }
  /// What the frame gives for these rows, and its program in a file of each rank.
  std::vector<Array> traced(const FrameOptions& options, const std::function<Y(X)>& function,
                            const std::vector<std::int64_t>& rows) {
    auto step = job->frame<X, Y>("step", options, function);
    std::vector<Array> out;
    for (const std::int64_t count : rows) {
      auto made = step({input(count)});
      EXPECT_TRUE(made) << made.error().text();
      if (made) out.push_back(made->y.array());
    }
    const auto saved = step.save(own_file());
    EXPECT_TRUE(saved) << saved.error().text();
    meet();
    return out;
  }
  void expect_calls_like(LoadedFrame& step, const std::vector<Array>& want,
                         const std::vector<std::int64_t>& rows) {
    ASSERT_EQ(want.size(), rows.size());
    for (std::size_t call = 0; call < rows.size(); ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      const auto out = step({{"x", input(rows[call]).array()}});
      ASSERT_TRUE(out) << out.error().text();
      const Array& got = out->at("y");
      ASSERT_EQ(got.sizes(), want[call].sizes());
      EXPECT_EQ(std::memcmp(got.data(), want[call].data(), got.bytes()), 0);
      EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
    }
  }
  /// No rank loads its file, as the last rank's is another program.
  void expect_mismatch_of_last() {
    start_again();
    const auto step = job->load(own_file());
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().code, Code::FrameMismatch);
    EXPECT_TRUE(contains(step.error().text(), last_text())) << step.error().text();
    expect_joint(step.error());
    EXPECT_TRUE(finish());
  }
  /// In a job of this rank alone.
  template <class Act>
  void alone(const Act& act) {
    auto made = Job::attach(MPI_COMM_SELF, {.settings = quiet(), .summary = false});
    ASSERT_TRUE(made) << made.error().text();
    act(**made);
    EXPECT_TRUE((*made)->finish());
  }
};

TEST_F(SavedRanks, SharedSizes_EachRankRunsItsOwnProgram) {
  const auto function = [this](X in) { return Y{last ? in.x * 2.0 : in.x + 5.0}; };
  const std::vector<std::int64_t> rows = {3 + rank, 4 + rank, 5 + rank};
  const auto want = traced({.consistency = Consistency::SharedSizes}, function, rows);
  start_again();
  auto step = job->load(own_file());
  ASSERT_TRUE(step) << step.error().text();
  expect_calls_like(*step, want, {3 + rank, 4 + rank, 5 + rank});
  // A call that fails on one rank is the error of all, and then it goes on.
  const auto out = (*step)({{last ? "z" : "x", input(4).array()}});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::BadInput);
  expect_joint(out.error());
  EXPECT_TRUE((*step)({{"x", input(6).array()}}));
  EXPECT_TRUE(finish());
}

TEST_F(SavedRanks, SharedSizesOfAnotherJob_AreOneErrorThatNamesTheRank) {
  if (size == 1) return;
  const auto function = [](X in) { return Y{in.x * 2.0}; };
  (void)traced({.consistency = Consistency::SharedSizes}, function, {3, 4});
  if (last) {  // has seen one size less
    SavedProgram other = read_program(own_file(), {.known = {}, .stand_ins = true}).value();
    ASSERT_GT(other.entries.size(), 1U);
    other.entries.pop_back();
    ASSERT_TRUE(write_program(own_file(), other));
  }
  expect_mismatch_of_last();
}

TEST_F(SavedRanks, Local_EachRankHasItsOwnEntriesAndCallsAsOftenAsItLikes) {
  const auto function = [this](X in) { return Y{last ? in.x * 2.0 : in.x + 3.0}; };
  // Another number of entries on each rank.
  std::vector<std::int64_t> rows = {5};
  if (rank > 0) rows.push_back(6);
  const auto want = traced({.consistency = Consistency::Local}, function, rows);
  EXPECT_EQ(read_program(own_file(), {}).value().entries.size(), rank == 0 ? 1U : 2U);
  start_again();
  auto step = job->load(own_file());
  ASSERT_TRUE(step) << step.error().text();
  for (int again = 0; again < 1 + rank; ++again) expect_calls_like(*step, want, rows);
  // What no entry of one rank serves is that rank's own error.
  if (rank == 0) {
    const auto out = (*step)({{"x", input(7).array()}});
    ASSERT_FALSE(out);
    EXPECT_TRUE(contains(out.error().text(), "no entry of the saved program"));
  }
  EXPECT_TRUE(finish());
}

TEST_F(SavedRanks, Audited_ProgramsThatDifferRunOnAndCollectivesThatDifferStop) {
  const auto function = [this](X in) {
    Tensor y = last ? sum(in.x) * 2.0 : sum(in.x + 1.0);
    if (in.x.size(0) > 6) y = all_reduce(y, collectives::Reduce::Max);
    return Y{all_reduce(y)};
  };
  const std::vector<std::int64_t> rows = {4, 9, 4};
  const auto want = traced({.audit = true}, function, rows);
  start_again();
  auto step = job->load(own_file());
  ASSERT_TRUE(step) << step.error().text();
  expect_calls_like(*step, want, rows);
  if (size > 1) {  // one all_reduce more on the last rank
    const auto out = (*step)({{"x", input(last ? 9 : 4).array()}});
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::GraphDivergence) << out.error().text();
    expect_joint(out.error());
  }
  const auto none = (*step)({{"x", Array::zeros(DType::F64, {4, last ? 3 : 2})}});
  ASSERT_FALSE(none);
  EXPECT_TRUE(contains(none.error().text(), "no entry of the saved program"))
      << none.error().text();
  expect_joint(none.error());
  expect_calls_like(*step, want, rows);
  EXPECT_TRUE(finish());
}

TEST_F(SavedRanks, SameCollectivesThatDiffer_AreOneErrorThatNamesTheRank) {
  if (size == 1) return;
  const auto function = [](X in) { return Y{all_reduce(sum(in.x))}; };
  (void)traced({.consistency = Consistency::SameCollectives}, function, {4});
  if (last) {
    SavedProgram other = read_program(own_file(), {}).value();
    for (Node& node : other.entries[0].graph.nodes)
      if (node.op == Op::AllReduce) node.ints[0] = static_cast<int>(collectives::Reduce::Max);
    ASSERT_TRUE(write_program(own_file(), other));
  }
  expect_mismatch_of_last();
}

TEST_F(SavedRanks, AnotherConsistencyOnOneRank_IsOneError) {
  if (size == 1) return;
  const auto function = [](X in) { return Y{in.x * 2.0}; };
  FrameOptions options{.consistency = Consistency::SharedSizes};
  (void)traced(options, function, {4});
  if (last) {
    SavedProgram other = read_program(own_file(), {}).value();
    other.consistency = Consistency::Local;
    for (SavedEntry& entry : other.entries)
      entry.graph.peers_may_differ = false, entry.reported.reset();
    ASSERT_TRUE(write_program(own_file(), other));
  }
  start_again();
  const auto step = job->load(own_file());
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, Code::FrameMismatch) << step.error().text();
  expect_joint(step.error());
  EXPECT_TRUE(finish());
}

// Other numbers of ranks.

Y polynomial(X in) {
  Tensor y = in.x * in.x;
  if (in.x.size(1) > 1) y = y * 2.0;
  if (group_any(in.x.size(0) > 6)) y = y - 1.0;
  return {y};
}

TEST_F(SavedRanks, AnotherNumberOfRanks_IsOneSentenceWithBothNumbersAndWhatToDo) {
  const auto total = [](X in) { return Y{all_reduce(sum(in.x))}; };
  if (rank == 0) {
    alone([&](Job& one) {
      auto step = one.frame<X, Y>("step", polynomial);
      ASSERT_TRUE(step({input(4)}));
      ASSERT_TRUE(step.save(file("one")));
      auto all = one.frame<X, Y>("total", total);
      ASSERT_TRUE(all({input(4)}));
      ASSERT_TRUE(all.save(file("total")));
    });
  }
  meet();
  if (size == 1) {
    ASSERT_TRUE(finish());
    return;
  }
  const std::string both = "was traced on 1 rank, and the job has " + std::to_string(size);
  auto refused = job->load(file("one"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::BadInput);
  EXPECT_TRUE(contains(refused.error().message, both + "; run it on as many, or save it again on " +
                                                    std::to_string(size) + ", or, if the function"))
      << refused.error().message;
  expect_joint(refused.error());
  // Whatever the caller says, a collective is for as many ranks as traced it.
  refused = job->load(file("total"), {.other_ranks = true});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().message, both + "; all_reduce at saved_ranks_job_test.cpp:"))
      << refused.error().message;
  EXPECT_TRUE(
      contains(refused.error().message, " needs as many: run it on 1, or save it again on "))
      << refused.error().message;
  expect_joint(refused.error());
  EXPECT_TRUE(finish());
}

TEST_F(SavedRanks, OtherRanks_GivesTheNumbersOfAFreshTrace) {
  const std::vector<std::int64_t> rows = {4 + rank, 9 + rank, 5 + rank};
  auto fresh = job->frame<X, Y>("fresh", polynomial);
  std::vector<Array> want;
  for (const std::int64_t count : rows) {
    auto out = fresh({input(count)});
    ASSERT_TRUE(out) << out.error().text();
    want.push_back(out->y.array());
  }
  if (rank == 0) {
    alone([&](Job& one) {
      auto step = one.frame<X, Y>("step", polynomial);
      for (const std::int64_t count : {3, 9, 4, 10}) ASSERT_TRUE(step({input(count)}));
      ASSERT_TRUE(step.save(file("one")));
    });
  }
  meet();
  // Of one rank, on all of this job; and what that saves, on one again.
  auto step = job->load(file("one"), {.other_ranks = true});
  ASSERT_TRUE(step) << step.error().text();
  expect_calls_like(*step, want, rows);
  ASSERT_TRUE(step->save(own_file()));
  EXPECT_EQ(read_program(own_file(), {}).value().ranks, size);
  meet();
  if (rank == 0) {
    alone([&](Job& one) {
      auto back = one.load(own_file(), {.other_ranks = true});
      ASSERT_TRUE(back) << back.error().text();
      auto again = one.frame<X, Y>("again", polynomial);
      for (const std::int64_t count : {3, 10}) {
        const auto out = again({input(count)});
        ASSERT_TRUE(out);
        expect_calls_like(*back, {out->y.array()}, {count});
      }
    });
  }
  meet();
  EXPECT_TRUE(finish());
}

TEST_F(SavedRanks, ANumberOfARank_IsForAsManyRanks) {
  const auto numbered = [](X in) { return Y{in.x + cast(in.x.trace()->rank(), DType::F64)}; };
  (void)traced({}, numbered, {4});
  SavedProgram program = read_program(own_file(), {}).value();
  const auto bound = bound_to_ranks(program);
  ASSERT_TRUE(bound);
  EXPECT_TRUE(contains(*bound, "the number of a rank at ")) << *bound;
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::saved_ranks_job_test
