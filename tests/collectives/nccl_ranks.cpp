#include "nccl_ranks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace lockstep::collectives {

std::vector<Connected> connect_ranks(int size, const std::function<void(NcclOptions&)>& change) {
  const auto id = nccl_unique_id(Rank{0});
  if (!id) {
    ADD_FAILURE() << id.error().text();
    return {};
  }
  auto ranks = at_once(size, [&](int rank) -> Connected {
    NcclOptions options{.rank = rank,
                        .size = size,
                        .id = *id,
                        .device_name = emulated_device(rank),
                        .deadline = std::chrono::seconds(20)};
    if (change) change(options);
    auto connected = connect_nccl(options);
    if (!connected) ADD_FAILURE() << connected.error().text();
    return connected ? *std::move(connected) : nullptr;
  });
  for (const Connected& rank : ranks)
    if (rank == nullptr) return {};
  return ranks;
}

void disconnect(std::vector<Connected>& ranks) {
  (void)at_once(static_cast<int>(ranks.size()), [&](int rank) {
    ranks[static_cast<std::size_t>(rank)].reset();
    return 0;
  });
  ranks.clear();
}

bool launches_end(std::chrono::milliseconds time) {
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  const auto wait = reinterpret_cast<bool (*)(int)>(
      library == nullptr ? nullptr : ::dlsym(library, "emulatedNcclWait"));
  if (wait == nullptr) {
    ADD_FAILURE() << "this is not the emulated NCCL";
    return false;
  }
  return wait(static_cast<int>(time.count()));
}

}  // namespace lockstep::collectives
