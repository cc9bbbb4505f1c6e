// Saved programs on real ranks: a frame is saved, and in another job, which does not have the
// function, the file gives the same numbers, agrees like any frame, and replays.
#include <filesystem>
#include <functional>

#include "job_folder.h"
#include "ops/own_ops.h"

#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/input/record_reader.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>

namespace lockstep::worker::saved_job_test {
namespace {

namespace fs = std::filesystem;
using Several = std::vector<Tensor>;

/// Rows of x go to the ranks that `counts` says.
struct In {
  Tensor x, counts;
  SymFloat lr = 0.0;
  SymInt n = 0;
  bool training = false;
  template <class V>
  void fields(V& v) {
    v("x", x), v("counts", counts), v("lr", lr), v("n", n), v("training", training);
  }
};
struct Out {
  Tensor total, grad, rank;
  std::vector<Tensor> rows;
  template <class V>
  void fields(V& v) {
    v("total", total), v("grad", grad), v("rank", rank), v("rows", rows);
  }
};

/// All-to-alls with sizes from data, branches on sizes and on floats, of this rank and of the
/// group, branches in the graph, an assert, an own op, a gradient.
Out exchange(const In& in) {
  const Tensor counts = all_to_all_single(in.counts);
  Tensor y = all_to_all_single(in.x, tolist(counts, Values::NonNegative),
                               tolist(in.counts, Values::NonNegative));
  y = test::swish()({y});
  if (in.x.size(1) > 2) y = y * 2.0;
  if (group_any(in.x.size(0) > 6)) y = y - 1.0;
  if (in.lr > 0.5) y = y * in.lr;
  if (in.training) y = y * 3.0;
  check(in.n > 0, "n counts something");
  const Tensor total = all_reduce(sum(y)) * in.n;
  const Several way = cond(
      total > 0.0, [](const Several& v) { return Several{all_reduce(v[0])}; },
      [](const Several& v) { return Several{v[0] + 1.0}; }, {total});
  return {way[0], grad(total, {in.x})[0], group_rank(in.x), {y, counts}};
}

class SavedJob : public JobFolder {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder + "/" + name + ".lsp";
  }
  void start_again(const Settings& settings = quiet(), DecisionConfig decision = {}) {
    if (job) {
      ASSERT_TRUE(finish());
    }
    start(decision, settings);
  }

  /// Sizes that differ between ranks and calls.
  [[nodiscard]] In input(int call) const {
    std::vector<std::int64_t> counts;
    std::int64_t rows = 0;
    for (int peer = 0; peer < size; ++peer) {
      counts.push_back((rank + 2 * peer + call) % 4);
      rows += counts.back();
    }
    Array x(DType::F64, {rows, 3});
    for (std::int64_t i = 0; i < x.elements(); ++i)
      x.set(i, 0.25 * static_cast<double>((7 * i + rank + call) % 13) - 1);
    return {x, integers(counts), SymFloat(0.75 + 0.01 * call), SymInt(3 + call % 2), call % 3 == 0};
  }
  static Array number(double value, DType dtype) {
    return Array::of(dtype, {}, std::span(&value, 1));
  }
  [[nodiscard]] NamedValues named(int call) const {
    const In in = input(call);
    return {{"x", in.x.array()},
            {"counts", in.counts.array()},
            {"lr", number(in.lr.value(), DType::F64)},
            {"n", number(static_cast<double>(*in.n.expr().constant()), DType::I64)},
            {"training", number(in.training ? 1 : 0, DType::Bool)}};
  }
  static constexpr int kCalls = 8;

  static void expect_same_bits(const Array& got, const Array& want) {
    ASSERT_EQ(got.dtype(), want.dtype());
    ASSERT_EQ(got.sizes(), want.sizes());
    EXPECT_TRUE(want.bytes() == 0 || std::memcmp(got.data(), want.data(), want.bytes()) == 0);
  }
  static void expect_same(const NamedValues& got, Out want) {
    ASSERT_EQ(got.size(), 5U);
    expect_same_bits(got.at("total"), want.total.array());
    expect_same_bits(got.at("grad"), want.grad.array());
    expect_same_bits(got.at("rank"), want.rank.array());
    expect_same_bits(got.at("rows[0]"), want.rows[0].array());
    expect_same_bits(got.at("rows[1]"), want.rows[1].array());
  }

  /// What the traced frame gives, and its file, of this rank.
  std::vector<Out> traced(const std::string& path, const SaveOptions& how = {}) {
    auto step = job->frame<In, Out>("step", exchange);
    std::vector<Out> outs;
    for (int call = 0; call < kCalls; ++call) {
      auto out = step(input(call));
      EXPECT_TRUE(out) << out.error().text();
      if (out) outs.push_back(*out);
    }
    if (rank == 0) {
      const auto saved = step.save(path, how);
      EXPECT_TRUE(saved) << saved.error().text();
    }
    meet();
    return outs;
  }
  static LoadOptions with_ops() { return {.own_ops = {test::swish_definition()}}; }

  void expect_calls_like(LoadedFrame& step, const std::vector<Out>& want) {
    ASSERT_EQ(want.size(), static_cast<std::size_t>(kCalls));
    for (int call = 0; call < kCalls; ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      const auto out = step(named(call));
      ASSERT_TRUE(out) << out.error().text();
      expect_same(*out, want[static_cast<std::size_t>(call)]);
      EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
    }
  }
  template <class T>
  void expect_joint_error(const Result<T>& result, Code code,
                          const std::vector<std::string>& parts) {
    ASSERT_FALSE(result.has_value());
    const Status& error = result.error();
    EXPECT_EQ(code_name(error.code), code_name(code)) << error.text();
    for (const std::string& part : parts)
      EXPECT_TRUE(contains(error.text(), part)) << part << " is not in " << error.text();
    expect_joint(error);
  }
};

TEST_F(SavedJob, LoadedWithoutTheFunction_GivesTheSameBits) {
  const std::vector<Out> want = traced(file("step"));
  start_again();
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  EXPECT_EQ(step->name(), "step");
  expect_calls_like(*step, want);
  // Saved again it is the same file.
  if (rank == 0) {
    ASSERT_TRUE(step->save(file("again")));
    const auto first = read_program(file("step"), {.known = {}, .stand_ins = true});
    const auto again = read_program(file("again"), {.known = {}, .stand_ins = true});
    EXPECT_EQ(encode(*first).value(), encode(*again).value());
  }
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, OfEveryRank_IsTheSameFile) {
  auto step = job->frame<In, Out>("step", exchange);
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(step(input(call)));
  ASSERT_TRUE(step.save(file("of" + std::to_string(rank))));
  meet();
  const OwnOps shown{.known = {}, .stand_ins = true};
  EXPECT_EQ(encode(read_program(file("of0"), shown).value()).value(),
            encode(read_program(file("of" + std::to_string(rank)), shown).value()).value());
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, Interpreted_GivesTheSameNumbers) {
  const std::vector<Out> want = traced(file("step"));
  Settings settings = quiet();
  settings.compiler.clear();
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);  // no c++ is found
  start_again(settings);
  ::setenv("PATH", path.c_str(), 1);
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  for (int call = 0; call < kCalls; ++call) {
    const auto out = step->operator()(named(call));
    ASSERT_TRUE(out) << out.error().text();
    const Array total = want[static_cast<std::size_t>(call)].total.array();
    EXPECT_NEAR(out->at("total").at(0), total.at(0), 1e-9 * std::max(1.0, std::abs(total.at(0))));
  }
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, Prefetched_GivesTheSameBits) {
  const std::vector<Out> want = traced(file("step"));
  start_again();
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  step->prefetch(named(0));
  for (int call = 0; call < kCalls; ++call) {
    if (call + 1 < kCalls) step->prefetch(named(call + 1));
    const auto out = step->operator()(named(call));
    ASSERT_TRUE(out) << out.error().text();
    expect_same(*out, want[static_cast<std::size_t>(call)]);
  }
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, WithItsObjects_RunsWhereThereIsNoCompiler) {
  const std::vector<Out> want = traced(file("step"), {.objects = true});
  Settings settings = quiet();
  settings.cache_dir = folder + "/empty";
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  start_again(settings);
  ::setenv("PATH", path.c_str(), 1);
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  expect_calls_like(*step, want);  // bits: by the kernels, not by the interpreter
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, ObjectsForAnotherProcessorOrDamaged_AreBuiltAnew) {
  const std::vector<Out> want = traced(file("step"), {.objects = true});
  const OwnOps shown{.known = {}, .stand_ins = true};
  if (rank == 0) {
    SavedProgram other = read_program(file("step"), shown).value();
    other.packed->processor = "another";
    ASSERT_TRUE(write_program(file("other"), other));
    other = read_program(file("step"), shown).value();
    other.entries[0].objects[0].object[100] ^= std::byte{1};
    ASSERT_TRUE(write_program(file("damaged"), other));
  }
  meet();
  for (const char* name : {"other", "damaged"}) {
    SCOPED_TRACE(name);
    start_again();
    auto step = job->load(file(name), with_ops());
    ASSERT_TRUE(step) << step.error().text();
    expect_calls_like(*step, want);
  }
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, ACallThatNoEntryServes_IsOneErrorThatSaysWhy) {
  (void)traced(file("step"));
  start_again();
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  NamedValues other = named(0);
  other["x"] = Array::zeros(DType::F64, {other["x"].sizes()[0], 5});
  expect_joint_error(step->operator()(other), Code::BadInput,
                     {"no entry of the saved program", "step.lsp fits", "x.size(1) is 5"});
  // And then it goes on.
  const auto out = step->operator()(named(1));
  EXPECT_TRUE(out) << out.error().text();
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, InputsThatTheProgramDoesNotTake_AreNamedOnAllRanks) {
  (void)traced(file("step"));
  start_again();
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  NamedValues missing = named(0), more = named(0), kind = named(0);
  if (last) {
    missing.erase("lr");
    more["z"] = more["x"];
    kind["n"] = number(3, DType::F64);
  }
  expect_joint_error(step->operator()(missing), Code::BadInput, {"the input lr float is missing"});
  expect_joint_error(step->operator()(more), Code::BadInput, {"the program has no input z"});
  expect_joint_error(step->operator()(kind), Code::BadInput, {"n int (a 0-d array)", "f64[]"});
  EXPECT_TRUE(step->operator()(named(0)));
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, AFileThatIsMissingOnOneRank_IsTheErrorOfAll) {
  (void)traced(file("step"));
  start_again();
  expect_joint_error(job->load(last ? file("none") : file("step"), with_ops()), Code::BadInput,
                     {"none.lsp cannot be read", last_text()});
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  EXPECT_TRUE(step->operator()(named(0)));
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, AnOwnOpThatOneRankHasNot_IsTheErrorOfAll) {
  (void)traced(file("step"));
  start_again();
  LoadOptions options = with_ops();
  if (last) options.own_ops.clear();
  expect_joint_error(job->load(file("step"), options), Code::BadInput, {"test.swish", last_text()});
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, DifferentFilesOnRanks_AreOneErrorThatNamesThem) {
  if (size == 1) return;
  (void)traced(file("step"));
  const OwnOps shown{.known = {}, .stand_ins = true};
  if (rank == 0) {
    SavedProgram other = read_program(file("step"), shown).value();
    ASSERT_GT(other.entries.size(), 1U);
    other.entries.pop_back();
    ASSERT_TRUE(write_program(file("other"), other));
  }
  meet();
  start_again();
  expect_joint_error(job->load(last ? file("other") : file("step"), with_ops()),
                     Code::FrameMismatch, {"step", "saved program", last_text()});
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, ANameThatIsTaken_IsRefused) {
  (void)traced(file("step"));
  start_again();
  auto own = job->frame<X, Y>("step", [](X in) { return Y{in.x}; });
  expect_joint_error(job->load(file("step"), with_ops()), Code::BadInput, {"a frame step"});
  EXPECT_TRUE(own({filled({2}, 1)}));
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, BeforeTheFirstCall_ThereIsNothingToSave) {
  auto step = job->frame<In, Out>("step", exchange);
  const auto saved = step.save(file("step"));
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::BadInput);
  EXPECT_FALSE(fs::exists(file("step")));
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, OfAGroup_IsLoadedWithThatGroup) {
  if (size != 4) return;
  const auto pair = [&] {
    RankSet members = RankSet::of(Rank{rank / 2 * 2});
    members.insert(RankSet::of(Rank{rank / 2 * 2 + 1}));
    return members;
  };
  const auto tensor = job->group("tensor", pair());
  ASSERT_TRUE(tensor);
  auto step =
      job->frame<X, Y>("step", {.group = *tensor}, [](X in) { return Y{all_reduce(sum(in.x))}; });
  const auto want = step({filled({2 + rank}, 1 + rank)});
  ASSERT_TRUE(want);
  if (rank == 0) {
    ASSERT_TRUE(step.save(file("step")));
  }
  meet();
  start_again();
  EXPECT_FALSE(job->load(file("step")));
  const auto again = job->group("tensor", pair());
  ASSERT_TRUE(again);
  auto loaded = job->load(file("step"), {.group = *again});
  ASSERT_TRUE(loaded) << loaded.error().text();
  const auto got = (*loaded)({{"x", filled({2 + rank}, 1 + rank).array()}});
  ASSERT_TRUE(got) << got.error().text();
  expect_same_bits(got->at("y"), want->y.array());
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, GraphsThatDifferUnderSameCollectives_AreLoadedByRank) {
  auto step = job->frame<X, Y>("step", {.consistency = Consistency::SameCollectives}, [&](X in) {
    Tensor y = in.x * in.x;
    if (in.x.size(0) > 3) y = y + 1.0;
    return Y{all_reduce(sum(y))};
  });
  const auto x = [&] { return filled({2 + 2 * (rank % 2)}, 1 + rank); };
  const auto want = step({x()});
  ASSERT_TRUE(want) << want.error().text();
  ASSERT_TRUE(step.save(file("of" + std::to_string(rank))));
  start_again();
  auto loaded = job->load(file("of" + std::to_string(rank)));
  ASSERT_TRUE(loaded) << loaded.error().text();
  const auto got = (*loaded)({{"x", x().array()}});
  ASSERT_TRUE(got) << got.error().text();
  expect_same_bits(got->at("y"), want->y.array());
  EXPECT_TRUE(finish());
}

TEST_F(SavedJob, Recorded_ReplaysByteForByte) {
  (void)traced(file("step"));
  Settings settings = quiet();
  settings.record_dir = folder + "/record";
  start_again(settings);
  auto step = job->load(file("step"), with_ops());
  ASSERT_TRUE(step) << step.error().text();
  for (int call = 0; call < kCalls; ++call) ASSERT_TRUE(step->operator()(named(call)));
  NamedValues other = named(0);
  other["x"] = Array::zeros(DType::F64, {other["x"].sizes()[0], 5});
  EXPECT_FALSE(step->operator()(other));
  ASSERT_TRUE(step->operator()(named(1)));
  EXPECT_TRUE(finish());
  job.reset();
  meet();
  const auto record = simulator::read_record(settings.record_dir);
  ASSERT_TRUE(record) << record.error().text();
  const auto replayed = simulator::replay(*record, false);
  ASSERT_TRUE(replayed) << replayed.error().text();
  EXPECT_FALSE(replayed->difference) << replayed->difference->text();
  ASSERT_EQ(replayed->result.calls.size(), static_cast<std::size_t>(kCalls + 2));
  for (int call = 0; call < kCalls; ++call)
    EXPECT_EQ(replayed->result.calls[static_cast<std::size_t>(call)].outcome.kind,
              CallOutcome::Kind::Reused);
  meet();
}

}  // namespace
}  // namespace lockstep::worker::saved_job_test
