// NCCL's data plane where something goes wrong, over the emulated NCCL.
#include <algorithm>

#include "nccl_ranks.h"
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::collectives::nccl_test {
namespace {

using namespace std::chrono_literals;
using Kind = Collective::Kind;

/// An all-to-all of `rows` of one i32 between each two ranks.
struct Swap {
  explicit Swap(std::vector<std::int64_t> sent, std::vector<std::int64_t> received)
      : send_rows(std::move(sent)), receive_rows(std::move(received)) {}
  std::vector<std::int64_t> send_rows, receive_rows;
  std::vector<std::int32_t> brought = std::vector<std::int32_t>(64, 5);
  std::vector<std::int32_t> got = std::vector<std::int32_t>(64, -1);
  [[nodiscard]] Collective collective() {
    return {.kind = Kind::AllToAll,
            .dtype = DType::I32,
            .send = brought.data(),
            .receive = got.data(),
            .send_rows = send_rows,
            .receive_rows = receive_rows,
            .label = "moe.cpp:41"};
  }
};

/// Polls until an error is seen, as one does who waits for the stream.
Status error_in_flight(DeviceData& data) {
  for (int i = 0; i < 20'000; ++i) {
    if (auto well = data.poll(); !well) return well.error();
    ::usleep(1'000);
  }
  return Status{};
}

TEST(Nccl, CollectivesThatDiffer_AreAnErrorInFlight) {
  auto ranks = connect_ranks(2);
  Sum sums[2];
  float four[4] = {};
  EXPECT_TRUE(ranks[0]->start(sums[0].collective()));
  EXPECT_TRUE(ranks[1]->start({.kind = Kind::AllGather, .send = four, .receive = four, .rows = 1}));
  for (const auto& status : at_once(2, [&](int r) { return error_in_flight(*ranks[r]); })) {
    EXPECT_EQ(status.code, Code::Internal) << status.text();
    EXPECT_TRUE(has(status, "ncclCommGetAsyncError failed on rank ")) << status.message;
  }
  EXPECT_TRUE(launches_end());
}

TEST(Nccl, SplitListsThatDiffer_AreAnErrorInFlight) {
  auto ranks = connect_ranks(2);
  Swap swaps[2] = {Swap({1, 2}, {1, 3}), Swap({3, 0}, {1, 0})};  // 2 are sent, 1 is awaited
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(ranks[r]->start(swaps[r].collective()));
  for (const auto& status : at_once(2, [&](int r) { return error_in_flight(*ranks[r]); }))
    EXPECT_EQ(status.code, Code::Internal) << status.text();
  EXPECT_TRUE(launches_end());
}

TEST(Nccl, RowsThatNobodyAwaits_HangUntilTheyAreAborted) {
  auto ranks = connect_ranks(2);
  Swap swaps[2] = {Swap({0, 2}, {0, 0}), Swap({0, 0}, {0, 0})};
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(ranks[r]->start(swaps[r].collective()));
  EXPECT_FALSE(launches_end(100ms));
  EXPECT_TRUE(ranks[0]->poll());
  ranks[0]->abort();
  EXPECT_TRUE(launches_end());
}

TEST(Nccl, Abort_EndsWhatIsUnderWayAndRefusesTheRest) {
  auto ranks = connect_ranks(2);
  Sum sum;
  EXPECT_TRUE(ranks[0]->start(sum.collective()));
  EXPECT_FALSE(launches_end(100ms));
  ranks[0]->abort();
  EXPECT_TRUE(launches_end());
  const auto refused = ranks[0]->start(sum.collective());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Gone);
  EXPECT_EQ(ranks[0]->poll().error(), refused.error());
  // What its peer begins then does not go on for ever either; the first may still meet what came.
  EXPECT_TRUE(ranks[1]->start(sum.collective()));
  const auto second = ranks[1]->start(sum.collective());
  const Status peer = second ? error_in_flight(*ranks[1]) : second.error();
  EXPECT_EQ(peer.code, Code::RankLost) << peer.text();
  EXPECT_TRUE(launches_end());
}

TEST(Nccl, ErrorInFlight_IsSeenByAllAndTheStreamGoesOn) {
  const Told told("EMULATED_NCCL_FAIL", "launch:2:1");
  auto ranks = connect_ranks(3);
  Sum first[3], second[3];
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(ranks[r]->start(first[r].collective()));
  EXPECT_TRUE(launches_end());
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(ranks[r]->poll());
    EXPECT_EQ(first[r].got, 3);
    EXPECT_TRUE(ranks[r]->start(second[r].collective()));
  }
  const auto said = at_once(3, [&](int r) { return error_in_flight(*ranks[r]); });
  EXPECT_EQ(said[0].code, Code::RankLost) << said[0].text();
  EXPECT_EQ(said[1].code, Code::Environment) << said[1].text();
  EXPECT_EQ(said[2].code, Code::RankLost) << said[2].text();
  EXPECT_TRUE(launches_end());
  EXPECT_EQ(ranks[1]->start(second[1].collective()).error(), said[1]);
}

TEST(Nccl, CallThatFailsWithinAGroup_IsNamedAndLeavesNoGroupOpen) {
  auto ranks = connect_ranks(2);
  Swap swap({1, 1}, {1, 1});
  {
    const Told told("EMULATED_NCCL_FAIL", "ncclSend:2:1");
    const auto failed = ranks[1]->start(swap.collective());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::Internal);
    EXPECT_EQ(failed.error().message,
              "ncclSend failed on rank 1's emulated device, in all_to_all_single moe.cpp:41: "
              "internal error (3), NCCL says: told to fail");
  }
  // On the same thread, which would still be in the group.
  auto other = connect_ranks(1);
  Sum sum;
  EXPECT_TRUE(other[0]->start(sum.collective()));
  EXPECT_TRUE(launches_end());
  EXPECT_EQ(sum.got, 1);
}

/// One rank goes the whole way; the first thing that it is told.
Status first_failure() {
  if (auto name = nccl_name(Rank{0}); !name) return name.error();
  const auto id = nccl_unique_id(Rank{0});
  if (!id) return id.error();
  // They outlive the communicator: what is under way at its end still uses them.
  Sum sum;
  Swap swap({1}, {1});
  auto data = connect_nccl(options_of(0, 1, *id, 20s));
  if (!data) return data.error();
  for (const Kind kind :
       {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast, Kind::AllToAll}) {
    Collective c = kind == Kind::AllToAll ? swap.collective() : sum.collective();
    c.kind = kind;
    if (auto started = (*data)->start(c); !started) return started.error();
  }
  return (*data)->poll() ? Status{} : (*data)->poll().error();
}

TEST(Nccl, EachCallThatFails_IsNamed) {
  EXPECT_EQ(first_failure(), Status{});
  for (const std::string call :
       {"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommGetAsyncError",
        "ncclCommCuDevice", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
        "ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd"}) {
    const Told told("EMULATED_NCCL_FAIL", (call + ":1").c_str());
    const Status status = first_failure();
    EXPECT_EQ(status.message.rfind(call + " failed on rank 0", 0), 0u) << call << status.text();
    EXPECT_TRUE(launches_end()) << call;
  }
  EXPECT_EQ(first_failure(), Status{});
}

TEST(Nccl, EndThatFails_Aborts) {
  const Told told("EMULATED_NCCL_FAIL", "ncclCommFinalize:1");
  EXPECT_EQ(first_failure(), Status{});
  EXPECT_TRUE(launches_end());
}

TEST(Nccl, Poke_RunsInWaitsAndMayAbort) {
  int pokes = 0;
  DeviceData* data = nullptr;
  auto ranks = connect_ranks(1, [&](NcclOptions& o) {
    o.poke = [&] {
      ++pokes;
      if (data != nullptr) data->abort();
    };
  });
  EXPECT_GT(pokes, 0);
  data = ranks[0].get();
  Sum sum;
  const auto aborted = ranks[0]->start(sum.collective());
  ASSERT_FALSE(aborted);
  EXPECT_EQ(aborted.error().code, Code::Gone);
}

TEST(Nccl, EndThatItsPeerDoesNotComeTo_LastsUntilTheDeadline) {
  auto ranks = connect_ranks(2, [](NcclOptions& o) { o.deadline = o.rank == 0 ? 2s : 20s; });
  Sum sums[2];
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(ranks[r]->start(sums[r].collective()));
  EXPECT_TRUE(launches_end());
  ranks[0].reset();
  EXPECT_TRUE(ranks[1]->start(sums[1].collective()));
  EXPECT_NE(error_in_flight(*ranks[1]).message, "");
}

TEST(Nccl, EndOfWhatWasNeverUsed_WaitsForNobody) {
  auto ranks = connect_ranks(2);
  const auto begun = std::chrono::steady_clock::now();
  ranks[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);  // of 20 that it would wait
}

TEST(Nccl, ReductionOfI16_IsRefusedAndNothingIsStarted) {
  auto ranks = connect_ranks(2);
  Sum sums[2];
  for (std::size_t r = 0; r < 2; ++r) {
    Collective c = sums[r].collective();
    c.dtype = DType::I16;
    const auto refused = ranks[r]->start(c);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::BadInput);
    EXPECT_TRUE(has(refused.error(), "NCCL does not reduce i16; cast to i32 first"));
    EXPECT_TRUE(ranks[r]->start(sums[r].collective()));
  }
  EXPECT_TRUE(launches_end());
  EXPECT_EQ(sums[1].got, 2);
  disconnect(ranks);
}

/// A rank in a process of its own; its exit code says whether all went well.
int process(int rank, int size, const NcclId& id) {
  auto data = connect_nccl(options_of(rank, size, id, 20s));
  if (!data) return 1;
  Sum sum{.brought = static_cast<float>(rank + 1)};
  std::vector<std::int64_t> rows(static_cast<std::size_t>(size), rank % 2);
  std::vector<std::int64_t> received;
  for (int r = 0; r < size; ++r) received.push_back(r % 2);
  Swap swap(rows, received);
  std::fill(swap.brought.begin(), swap.brought.end(), rank);
  if (!(*data)->start(sum.collective()) || !(*data)->start(swap.collective())) return 2;
  if (!launches_end() || !(*data)->poll()) return 3;
  std::vector<std::int32_t> expected;
  for (int r = 1; r < size; r += 2) expected.push_back(r);
  swap.got.resize(expected.size());
  return sum.got == static_cast<float>(size * (size + 1) / 2) && swap.got == expected ? 0 : 4;
}

TEST(Nccl, Processes_MeetAndExchange) {
  constexpr int kSize = 4;
  // Rank 0 makes the id, as in a job; its process has the meeting.
  struct Shared {
    std::atomic<bool> made;
    NcclId id;
  };
  auto* shared = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    if (rank == 0) {
      shared->id = nccl_unique_id(Rank{0}).value();
      shared->made = true;
    }
    while (!shared->made) ::usleep(200);
    ::_exit(process(rank, kSize, shared->id));
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ::munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace lockstep::collectives::nccl_test
