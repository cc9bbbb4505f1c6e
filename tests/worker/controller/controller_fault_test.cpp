// Faults between a controller and its workers: who is killed or suspended is named, in bounded
// time, and a new controller goes on where one was killed.
#include <cmath>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "one_tensor.h"
#include "workers_process.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::worker::controller_fault_test {
namespace {

using test::ones;
using test::WorkersProcess;
using test::X;

X doubled(const X& in) { return {all_reduce(in.x) * 2.0}; }
X tripled(const X& in) { return {all_reduce(in.x) * 3.0}; }

/// Calls until it hears of an error, for a minute and a half at most.
std::optional<Status> first_error(Controller& controller, RemoteFrame<X, X>& step,
                                  const Tensor& x) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (std::chrono::steady_clock::now() < until) {
    auto out = step({x});
    if (!out) return out.error();
    if (const auto seen = controller.fetch(out->x); !seen) return seen.error();
  }
  return std::nullopt;
}

/// Something that happens while calls are on their way, at a time that is another one in every run:
/// scripts/test-long repeats these tests.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> what)
      : after_(std::random_device()() % 40'000), thread_([this, what = std::move(what)] {
          std::this_thread::sleep_for(after_);
          what();
        }) {}
  ~Meanwhile() { thread_.join(); }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
  [[nodiscard]] std::string text() const { return fmt::format("after {} us", after_.count()); }

 private:
  std::chrono::microseconds after_;
  std::thread thread_;
};

class ControllerFault : public testing::TestWithParam<int> {
 protected:
  void start(const WorkersProcess::Options& options, const ControllerOptions& own = {}) {
    workers = std::make_unique<WorkersProcess>(2, options);
    controller = workers->connect(own);
    ASSERT_TRUE(controller);
    auto made = controller->frame<X, X>("step", doubled);
    ASSERT_TRUE(made) << made.error().text();
    step = std::make_unique<RemoteFrame<X, X>>(*made);
    auto put = controller->put(ones(3));
    ASSERT_TRUE(put) << put.error().text();
    x = *put;
    auto out = (*step)({x});
    ASSERT_TRUE(out) << out.error().text();
    ASSERT_TRUE(controller->fetch(out->x));
  }
  std::unique_ptr<WorkersProcess> workers;
  std::unique_ptr<Controller> controller;
  std::unique_ptr<RemoteFrame<X, X>> step;
  Tensor x;
};

TEST_P(ControllerFault, KilledWorker_IsNamedAndAllEnd) {
  start({});
  const pid_t victim = workers->pid(GetParam());
  ASSERT_GT(victim, 0);
  const Meanwhile killed([&] { ::kill(victim, SIGKILL); });
  SCOPED_TRACE(killed.text());
  if (GetParam() == 1) {
    const auto error = first_error(*controller, *step, x);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Code::RankLost) << error->text() << workers->output();
    EXPECT_NE(error->text().find("ank 1"), std::string::npos) << error->text();
  } else {
    const auto error = first_error(*controller, *step, x);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Code::RankLost) << error->text();
    EXPECT_NE(error->message.find("worker 0"), std::string::npos) << error->text();
  }
  const auto again = controller->settle();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::RankLost);
  EXPECT_NE(workers->wait(), 0);
}

TEST_P(ControllerFault, SuspendedWorker_IsNamedAfterTheDeadline) {
  // Of worker 0 the controller's own deadline counts, of the others the workers'.
  const bool first = GetParam() == 0;
  start({.environment = first ? "LOCKSTEP_DEADLINE_SECONDS=50" : "LOCKSTEP_DEADLINE_SECONDS=3"},
        {.deadline = std::chrono::seconds(first ? 3 : 60)});
  const pid_t stopped = workers->pid(GetParam());
  ASSERT_GT(stopped, 0);
  const Meanwhile suspended([&] { ::kill(stopped, SIGSTOP); });
  SCOPED_TRACE(suspended.text());
  const auto error = first_error(*controller, *step, x);
  ::kill(stopped, SIGCONT);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::Stuck) << error->text() << workers->output();
  if (first) {
    EXPECT_NE(error->message.find("worker 0 at"), std::string::npos) << error->text();
    EXPECT_NE(error->message.find("has not been heard of for 3 s"), std::string::npos)
        << error->text();
    return;
  }
  EXPECT_NE(error->text().find("ank 1"), std::string::npos) << error->text();
  EXPECT_EQ(workers->wait(), 4) << workers->output();
}

INSTANTIATE_TEST_SUITE_P(Of, ControllerFault, testing::Values(0, 1),
                         [](const auto& param) { return fmt::format("Worker{}", param.param); });

/// What a controller says that waits for a worker 0 which does not go on.
std::string said_of_the_queue(const ControllerOptions& options, const Array& tensor) {
  WorkersProcess workers(1);
  const auto controller = workers.connect(options);
  if (!controller) return "";
  const pid_t stopped = workers.pid(0);
  if (stopped <= 0) return "there is no worker 0";
  ::kill(stopped, SIGSTOP);
  Result<Tensor> put = Status{};
  std::vector<Tensor> kept;
  do {
    put = controller->put(tensor);
    if (put) kept.push_back(*put);
  } while (put && kept.size() < 100);
  ::kill(stopped, SIGCONT);
  return put ? "all were sent" : put.error().message;
}

TEST(ControllerFault, CommandsBeyondTheBound_Wait) {
  const std::string number =
      said_of_the_queue({.deadline = std::chrono::seconds(5), .most_commands = 4}, ones(3));
  EXPECT_NE(number.find("while the controller waits for a tensor and 3 behind it"), number.npos)
      << number;
  // 80 kB each: the third waits, since the first two are more than 100 kB.
  const std::string bytes =
      said_of_the_queue({.deadline = std::chrono::seconds(5), .most_bytes = 100'000}, ones(10'000));
  EXPECT_NE(bytes.find("waits for a tensor and 1 behind it"), bytes.npos) << bytes;
}

TEST(ControllerFault, BoundsOfTheQueue_LoseNothingAndKeepTheOrder) {
  WorkersProcess workers(2);
  const auto controller = workers.connect({.most_commands = 2, .most_bytes = 200});
  ASSERT_TRUE(controller);
  auto step = controller->frame<X, X>("step", doubled);
  ASSERT_TRUE(step);
  auto x = controller->put(ones(3));
  ASSERT_TRUE(x);
  for (int call = 0; call < 300; ++call) {
    auto out = (*step)({*std::move(x)});
    ASSERT_TRUE(out) << out.error().text();
    x = out->x;
  }
  EXPECT_EQ(controller->fetch(*x, 1)->at(0), std::pow(4.0, 300));
  EXPECT_TRUE(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST(ControllerFault, TensorThatIsTooLargeForAMessage_IsNotSentAndTheNextCallWorks) {
  constexpr std::size_t kBytes = std::size_t{600} << 20;
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Array large = Array::borrowed(DType::F64, {static_cast<std::int64_t>(kBytes / 8)}, memory);
  WorkersProcess workers(2);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  const auto all = controller->put(large);
  const auto one = controller->put({ones(3), large});
  auto step = controller->frame<X, X>("step", doubled);
  ASSERT_TRUE(step);
  const auto input = (*step)({large});
  for (const Status& refused : {all.error(), one.error(), input.error()}) {
    EXPECT_EQ(refused.code, Code::BadInput);
    EXPECT_NE(refused.message.find("629145600 bytes"), std::string::npos) << refused.text();
    EXPECT_NE(refused.message.find("read"), std::string::npos) << refused.text();
  }
  auto out = (*step)({ones(3)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(controller->fetch(out->x)->at(0), 4);
  EXPECT_TRUE(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
  ::munmap(memory, kBytes);
}

TEST(ControllerFault, WorkersThatWait_AreNotTakenToBeStuck) {
  WorkersProcess workers(2, {.environment = "LOCKSTEP_DEADLINE_SECONDS=4"});
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  EXPECT_TRUE(controller->settle()) << workers.output();
  EXPECT_TRUE(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST(ControllerFault, NoController_EndsTheWorkersInOneSentence) {
  WorkersProcess workers(2, {.arguments = "--wait 0.5"});
  EXPECT_EQ(workers.wait(), 3) << workers.output();
  const std::string said = workers.output();
  EXPECT_NE(said.find("lockstep: GONE: no controller came within 0.5 s; the workers end\n"),
            std::string::npos)
      << said;
}

/// In a process of its own: calls, then is killed in the middle of it.
void be_killed(const std::string& address) {
  auto controller = Controller::connect(address);
  if (!controller) ::_exit(1);
  auto x = (*controller)->put(ones(3), "the input");
  auto step = (*controller)->frame<X, X>("step", doubled);
  if (!x || !step) ::_exit(2);
  const auto first = (*step)({*x});
  if (!first || !(*controller)->settle()) ::_exit(3);
  const Meanwhile killed([] { ::kill(::getpid(), SIGKILL); });
  std::printf("killed %s\n", killed.text().c_str());
  std::fflush(stdout);
  auto out = first;
  for (int call = 1; call < 400; ++call) {
    out = (*step)({out->x});
    if (call % 7 == 0) (void)(*controller)->fetch(out->x);
  }
  for (;;) (void)(*controller)->settle();
}

TEST(ControllerFault, KilledController_LeavesAllToTheNextOne) {
  WorkersProcess workers(2);
  const std::string address = workers.address_file();
  const pid_t child = ::fork();
  if (child == 0) be_killed(address);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the first controller left with " << WEXITSTATUS(status);
  Result<std::unique_ptr<Controller>> next = Status{};
  for (int tries = 0; tries < 1000 && !next; ++tries) next = Controller::connect(address);
  ASSERT_TRUE(next) << next.error().text() << workers.output();
  Controller& controller = **next;
  const auto kept = controller.take_over();
  const auto input = std::ranges::find(kept, "the input", &KeptTensor::label);
  ASSERT_NE(input, kept.end());
  EXPECT_EQ(controller.fetch(input->tensor, 1)->sizes(), std::vector<std::int64_t>{3});
  // Of each call that was made, what it gives: 4 times its input.
  int made = 0;
  for (const KeptTensor& tensor : kept) {
    int call = 0;
    if (std::sscanf(tensor.label.c_str(), "x of call %d of step", &call) != 1) continue;
    ++made;
    for (const int worker : {0, 1})
      EXPECT_EQ(controller.fetch(tensor.tensor, worker)->at(2), std::pow(4.0, call + 1)) << call;
  }
  EXPECT_GT(made, 0);
  // The frame goes on with what was compiled.
  auto step = controller.frame<X, X>("step", doubled);
  ASSERT_TRUE(step) << step.error().text();
  auto out = (*step)({input->tensor});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(controller.fetch(out->x)->at(2), 4);
  EXPECT_TRUE(controller.finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST(ControllerFault, NextController_WithAnotherFunctionIsRefused) {
  WorkersProcess workers(1);
  {
    const auto controller = workers.connect();
    ASSERT_TRUE(controller);
    auto step = controller->frame<X, X>("step", doubled);
    ASSERT_TRUE(step && (*step)({ones(3)}) && controller->settle());
  }
  Result<std::unique_ptr<Controller>> next = Status{};
  for (int tries = 0; tries < 1000 && !next; ++tries)
    next = Controller::connect(workers.address_file());
  ASSERT_TRUE(next) << next.error().text();
  auto step = (*next)->frame<X, X>("step", tripled);
  ASSERT_TRUE(step);
  const auto refused = (*step)({ones(3)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is another than"), std::string::npos)
      << refused.error().text();
  EXPECT_TRUE((*next)->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

TEST(ControllerFault, WorkersThatMeetOverTcp_DoTheSame) {
  WorkersProcess workers(2, {.met = true});
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto step = controller->frame<X, X>("step", doubled);
  ASSERT_TRUE(step);
  auto out = (*step)({ones(3)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(controller->fetch(out->x, 1)->at(0), 4);
  EXPECT_TRUE(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

}  // namespace
}  // namespace lockstep::worker::controller_fault_test
