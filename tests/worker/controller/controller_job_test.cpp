// A controller and real workers: what it puts, calls and fetches, and that workers run what ranks
// of a job of the same program run, to the bit and to the byte.
#include <cmath>
#include <fstream>
#include <regex>
#include <thread>

#include "one_tensor.h"
#include "saved_programs.h"
#include "tracing.h"
#include "training_step.h"
#include "workers_process.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/files/safetensors/writer.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker::controller_job_test {
namespace {

using test::ones;
using test::WorkersProcess;
using test::X;

struct Y {
  Tensor y, total;
  template <class V>
  void fields(V& v) {
    v("y", y), v("total", total);
  }
};
Y twice(X in) { return {in.x * 2.0, all_reduce(sum(in.x))}; }

template <class T>
T good(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().text();
  return *std::move(result);
}
void good(const Result<void>& result) {
  if (!result) ADD_FAILURE() << result.error().text();
}
std::vector<Array> rows_by_worker(int workers, double value = 1) {
  std::vector<Array> out;
  for (int w = 0; w < workers; ++w) out.push_back(ones(w + 2, value));
  return out;
}
double total_of(int workers) { return workers * (workers + 3) / 2.0; }

class ControllerJob : public testing::TestWithParam<int> {};

TEST_P(ControllerJob, Tensors_StayOnWorkersUntilTheyAreFetched) {
  const int n = GetParam();
  WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  EXPECT_EQ(controller->workers(), n);
  const Tensor x = good(controller->put(rows_by_worker(n)));
  EXPECT_THROW((void)x.array().sizes(), std::runtime_error);
  const auto sizes = good(controller->sizes(x));
  for (int w = 0; w < n; ++w) {
    EXPECT_EQ(sizes.at(static_cast<std::size_t>(w)), std::vector<std::int64_t>{w + 2});
    EXPECT_EQ(good(controller->fetch(x, w)).sizes(), std::vector<std::int64_t>{w + 2});
  }
  auto step = good(controller->frame<X, Y>("twice", twice));
  Y out = good(step({x}));
  for (int call = 0; call < 20; ++call) out = good(step({x}));
  for (int w = 0; w < n; ++w) {
    const Array y = good(controller->fetch(out.y, w));
    EXPECT_EQ(y.sizes(), std::vector<std::int64_t>{w + 2});
    EXPECT_EQ(y.at(w + 1), 2);
    EXPECT_EQ(good(controller->fetch(out.total, w)).at(0), total_of(n));
  }
  const auto none = controller->fetch(x, n);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::BadInput);
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

/// Lines of records, without times and the program that wrote them.
std::vector<std::string> record_of(const std::string& folder, int rank) {
  std::ifstream in(fmt::format("{}/rank-{:05}.jsonl", folder, rank));
  std::vector<std::string> out;
  static const std::regex gone(R"re(,?"(ns|build)":("[^"]*"|[0-9]+)|,?"program":\{[^}]*\})re");
  for (std::string line; std::getline(in, line);) out.push_back(std::regex_replace(line, gone, ""));
  return out;
}

std::vector<std::string> losses_of(const std::string& output) {
  std::vector<std::string> out;
  std::size_t at = output.find("loss ");
  for (; at != output.npos; at = output.find("loss ", at + 1))
    out.push_back(output.substr(at + 5, output.find('\n', at) - at - 5));
  return out;
}

/// As printf's %a has it.
std::string digits(double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%a", number);
  return text.data();
}

TEST_P(ControllerJob, Training_HasTheLossesAndTheRecordOfRanksWithoutAController) {
  const int n = GetParam();
  const Folder records;
  const Launched alone =
      launch_ranks(n, CONTROLLER_SPMD_RANK, "LOCKSTEP_RECORD=" + (records / "ranks"));
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  const std::vector<std::string> wanted = losses_of(alone.output);
  ASSERT_EQ(wanted.size(), static_cast<std::size_t>(test::kSteps)) << alone.output;

  WorkersProcess workers(n, {.environment = "LOCKSTEP_RECORD=" + (records / "workers")});
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto step = good(controller->frame<test::StepIn, test::StepOut>("step", test::training_step));
  std::vector<test::Layer> layers = test::first_layers();
  std::vector<Tensor> losses;
  for (int s = 0; s < test::kSteps; ++s) {
    std::vector<Array> x, y;
    for (int rank = 0; rank < n; ++rank)
      x.push_back(test::x_of(rank, s)), y.push_back(test::y_of(rank, s));
    test::StepOut out = good(step({good(controller->put(x)), good(controller->put(y)),
                                   std::move(layers), test::rate_of(s), s, s % 4 != 3}));
    layers = std::move(out.layers);
    losses.push_back(out.loss);
  }
  for (int s = 0; s < test::kSteps; ++s)
    EXPECT_EQ(digits(good(controller->fetch(losses[static_cast<std::size_t>(s)])).at(0)),
              wanted[static_cast<std::size_t>(s)])
        << "step " << s;
  good(controller->finish());
  ASSERT_EQ(workers.wait(), 0) << workers.output();
  for (int rank = 0; rank < n; ++rank) {
    const auto ranks = record_of(records / "ranks", rank);
    EXPECT_GT(ranks.size(), 50U);
    EXPECT_EQ(record_of(records / "workers", rank), ranks) << "rank " << rank;
  }
}

TEST_P(ControllerJob, CallThatFails_IsTheErrorOfTheNextLookAndOfAllThatDependsOnIt) {
  const int n = GetParam();
  WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto checked = good(controller->frame<X, X>("checked", [](const X& in) {
    check(in.x.size(0) > 0, "rows");
    const Tensor bad = sum(in.x * 0.0) + amax(in.x);
    return X{in.x + all_reduce(bad)};
  }));
  auto step = good(controller->frame<X, Y>("twice", twice));
  const Tensor x = good(controller->put(rows_by_worker(n)));
  X fine = good(checked({x}));
  auto thrower = good(controller->frame<X, X>("thrower", [](const X& in) -> X {
    if (in.x.ndim() == 1) throw std::runtime_error("not today");
    return in;
  }));
  const auto thrown = thrower({x});
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, Code::TraceError);
  EXPECT_NE(thrown.error().message.find("not today"), std::string::npos) << thrown.error().text();
  EXPECT_NE(thrown.error().message.find("of thrower: "), std::string::npos);
  // Rows that the workers add do not fit, and the call after it takes what it was to give.
  auto add = good(controller->frame<test::StepIn, X>(
      "add", [](const test::StepIn& in) { return X{in.x + in.y}; }));
  test::StepIn sums{x, x, {}, 0.0, 0, true};
  X added = good(add(sums));
  sums.y = good(controller->put(ones(1 + n + 2)));
  X wrong = good(add(sums));
  X later = good(checked({wrong.x}));
  const auto first = controller->fetch(later.x);
  ASSERT_FALSE(first);
  EXPECT_NE(first.error().message.find("of add: "), std::string::npos) << first.error().text();
  const auto again = controller->fetch(wrong.x);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, first.error().message);
  const auto after = controller->fetch(later.x);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message, first.error().message) << "the first failure, without a run";
  good(controller->settle());
  EXPECT_EQ(good(controller->fetch(good(step({added.x})).total)).at(0), 2 * total_of(n));
  EXPECT_EQ(good(controller->fetch(fine.x)).at(0), 1.0 + n);
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

/// The function is traced in the middle of its first call.
TEST_P(ControllerJob, CallWhileAnotherThreadsIsUnderWay_IsRefusedAndThatOneIsUnharmed) {
  const int n = GetParam();
  WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  const Tensor x = good(controller->put(rows_by_worker(n)));
  auto other = good(controller->frame<X, Y>("twice", twice));
  const auto refused = [](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::BadInput);
    EXPECT_NE(result.error().message.find("and a controller takes one call at a time"),
              std::string::npos)
        << result.error().text();
  };
  int traced = 0;
  auto step = good(controller->frame<X, Y>("step", [&](X in) {
    ++traced;
    std::thread([&] {
      refused(controller->put(ones(2)));
      refused(controller->put(rows_by_worker(n)));
      refused(controller->read("x.safetensors", {"x"}));
      refused(controller->fetch(x));
      refused(controller->sizes(x));
      refused(controller->frame<X, Y>("late", twice));
      refused(controller->load("step.lsp"));
      refused(controller->settle());
      refused(controller->finish());
      refused(other({x}));
    }).join();
    return twice(std::move(in));
  }));
  Y out = good(step({x}));
  EXPECT_GT(traced, 0);
  // One after the other from any thread; and tensors go on any thread, beside calls.
  std::thread([&] { out = good(step({x})); }).join();
  for (int round = 0; round < 20; ++round) {
    std::vector<Y> made;
    for (int call = 0; call < 10; ++call) made.push_back(good(other({x})));
    std::thread letting_go([&] { made.clear(); });
    EXPECT_EQ(good(controller->fetch(good(step({x})).total)).at(0), total_of(n));
    letting_go.join();
  }
  EXPECT_EQ(good(controller->fetch(out.total)).at(0), total_of(n));
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST_P(ControllerJob, SavedProgram_IsSentAndCalled) {
  const int n = GetParam();
  test::DecisionBuilder decision;
  decision.integer("n", test::Dim(3, 0)).tensor("x", DType::F64, {test::Dim(5, 2)});
  Graph graph = trace(test::setup(decision.get(), n), [](Trace& t) {
                  const Tensor x = t.tensor_input(t.source("x"));
                  t.output("y", x * t.int_input(t.source("n")));
                  t.output("a", all_reduce(sum(x)));
                }).value();
  WorkersProcess workers(n);
  const std::string path = workers.folder() / "step.lsp";
  good(write_program(path, test::program_of(std::move(graph), decision.get(), n)));
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto step = good(controller->load(path));
  const Tensor x = good(controller->put(rows_by_worker(n)));
  auto out = good(step({{"x", x}, {"n", std::int64_t{7}}}));
  EXPECT_EQ(good(controller->fetch(out.at("a"))).at(0), total_of(n));
  EXPECT_EQ(good(controller->fetch(out.at("y"), n - 1)).at(n), 7);
  const auto missing = step({{"x", x}});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("the input n int is missing"), std::string::npos)
      << missing.error().text();
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST_P(ControllerJob, TensorsOfFiles_AreReadByEachWorkerAndAFileThatIsNotThereIsNamed) {
  const int n = GetParam();
  WorkersProcess workers(n);
  for (int w = 0; w < n; ++w)
    good(write_safetensors(workers.folder() / fmt::format("x.{}.safetensors", w),
                           {{"x", ones(w + 1, w)}}));
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto read = good(controller->read(workers.folder() / "x.{rank}.safetensors", {"x"}));
  EXPECT_EQ(good(controller->fetch(read.at("x"), n - 1)).at(0), n - 1);
  const auto none = controller->read(workers.folder() / "z.{rank}.safetensors", {"x"});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("worker 0 cannot read"), std::string::npos)
      << none.error().text();
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST_P(ControllerJob, QuestionsOfTheGroup_AreAnsweredByAllWorkers) {
  const int n = GetParam();
  WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto asks = good(controller->frame<X, X>("asks", [n](const X& in) {
    Tensor out = in.x;
    if (group_any(in.x.size(0) > n)) out = out + 1.0;        // worker n - 1 has n + 1 rows
    if (group_all(in.x.size(0) > 2)) out = out + 10.0;       // worker 0 has 2
    if (group_any(in.x.size(0) > n + 1)) out = out + 100.0;  // nobody has
    return X{out};
  }));
  const auto called_with = [&](std::int64_t more) {
    std::vector<Array> rows;
    for (int w = 0; w < n; ++w) rows.push_back(ones(w + 2 + more));
    const X out = good(asks({good(controller->put(rows))}));
    for (int w = 0; w < n; ++w)
      EXPECT_EQ(good(controller->fetch(out.x, w)).at(0), good(controller->fetch(out.x)).at(0));
    return good(controller->fetch(out.x)).at(0);
  };
  EXPECT_EQ(called_with(0), 2);
  EXPECT_EQ(called_with(1), 112);
  EXPECT_EQ(called_with(0), 2);
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST_P(ControllerJob, QuestionWithoutAValueOnOneWorker_IsTheErrorOfTheCall) {
  const int n = GetParam();
  WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto asks = good(controller->frame<test::StepIn, X>("asks", [](const test::StepIn& in) {
    return group_any(in.seen * in.seen * in.x.size(0) > 5) ? X{in.x + 1.0} : X{in.x};
  }));
  const auto called_with = [&](std::int64_t rows_of_last, std::int64_t seen,
                               bool squared = true) -> Result<void> {
    std::vector<Array> rows(static_cast<std::size_t>(n), ones(3));
    rows.back() = ones(rows_of_last);
    const Tensor x = good(controller->put(rows));
    if (auto out = asks({x, x, {}, 0.0, seen, squared}); !out) return out.error();
    return controller->settle();
  };
  good(called_with(4, 1));
  good(called_with(5, 2));
  good(called_with(6, std::int64_t{1} << 61));
  const auto refused = called_with(40, std::int64_t{1} << 62, false);  // 40 * 2^124, in a new trace
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::TraceError) << refused.error().text();
  if (n > 1) {
    EXPECT_TRUE(refused.error().text().find(fmt::format("rank {}", n - 1)) != std::string::npos)
        << refused.error().text();
  }
  good(called_with(4, 1));
  good(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST_P(ControllerJob, Example_Learns) {
  WorkersProcess workers(GetParam());
  const Launched example = launch(std::string(CONTROLLER_EXAMPLE) + " " + workers.address_file());
  EXPECT_EQ(example.exit_code, 0) << example.output;
  EXPECT_NE(example.output.find(fmt::format("{} workers: loss ", GetParam())), std::string::npos)
      << example.output;
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

INSTANTIATE_TEST_SUITE_P(Workers, ControllerJob, testing::Values(1, 2, 4),
                         [](const auto& param) { return fmt::format("n{}", param.param); });

}  // namespace
}  // namespace lockstep::worker::controller_job_test
