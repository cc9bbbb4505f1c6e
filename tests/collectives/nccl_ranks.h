// Ranks of one communicator of the emulated NCCL, on threads of this process.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/collectives/nccl/nccl.h>

namespace lockstep::collectives {

/// "rank 2's emulated device"
[[nodiscard]] inline std::string emulated_device(int rank) {
  return "rank " + std::to_string(rank) + "'s emulated device";
}

[[nodiscard]] inline NcclOptions options_of(int rank, int size, const NcclId& id,
                                            Duration deadline) {
  return {.rank = rank,
          .size = size,
          .id = id,
          .device_name = emulated_device(rank),
          .deadline = deadline};
}

/// each(rank) for all ranks at once; what they give, by rank.
template <class Each>
auto at_once(int ranks, Each each) {
  std::vector<decltype(each(0))> out(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { out[static_cast<std::size_t>(r)] = each(r); });
  for (std::thread& thread : threads) thread.join();
  return out;
}

using Connected = std::unique_ptr<DeviceData>;

/// All ranks of a communicator of `size`; empty where one of them failed. `change` alters a rank's
/// options.
[[nodiscard]] std::vector<Connected> connect_ranks(
    int size, const std::function<void(NcclOptions&)>& change = {});
/// At once, as it takes all of them.
void disconnect(std::vector<Connected>& ranks);

/// Waits for what was put on no stream in this process; false where some of it is left after
/// `time`.
[[nodiscard]] bool launches_end(std::chrono::milliseconds time = std::chrono::seconds(20));

/// Told to the emulated NCCL for as long as it lives.
class Told {
 public:
  Told(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Told() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// A sum over one number of each rank; `data` is what this one brings and gets.
struct Sum {
  float brought = 1, got = 0;
  [[nodiscard]] Collective collective(std::int64_t rows = 1) {
    return {.kind = Collective::Kind::AllReduce,
            .send = &brought,
            .receive = &got,
            .rows = rows,
            .label = "step.cpp:7"};
  }
};

[[nodiscard]] inline bool has(const Status& status, std::string_view text) {
  return status.message.find(text) != std::string::npos;
}

}  // namespace lockstep::collectives
