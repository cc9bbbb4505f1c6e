#include "gpu_exchange.h"

#include <utility>

#include <lockstep/collectives/nccl/nccl_library.h>

namespace lockstep::bench {
namespace {

using collectives::NcclLibrary;

class Exchange final : public BareExchange {
 public:
  Exchange(NcclLibrary nccl, worker::Device& device) : nccl_(nccl), device_(device) {}
  ~Exchange() override {
    if (communicator_ != nullptr) nccl_.abort(communicator_);
  }

  Result<void> connect() {
    ncclUniqueId id{};
    if (auto done = checked(nccl_.unique_id(&id), "ncclGetUniqueId"); !done) return done;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // as ours is
    return checked(nccl_.init_rank(&communicator_, 1, id, 0, &config), "ncclCommInitRankConfig");
  }

  Result<void> start(worker::DeviceAddress send, worker::DeviceAddress receive,
                     std::size_t elements) override {
    auto* const stream = static_cast<cudaStream_t>(device_.stream(worker::DeviceStream::Work));
    if (auto done = checked(nccl_.group_start(), "ncclGroupStart"); !done) return done;
    const auto sent = nccl_.send(reinterpret_cast<const void*>(send), elements, ncclFloat32, 0,
                                 communicator_, stream);
    const auto received = nccl_.receive(reinterpret_cast<void*>(receive), elements, ncclFloat32, 0,
                                        communicator_, stream);
    const auto ended = nccl_.group_end();
    for (const auto& [result, call] : {std::pair{sent, "ncclSend"}, {received, "ncclRecv"}})
      if (!collectives::taken(result)) return checked(result, call);
    return checked(ended, "ncclGroupEnd");
  }

 private:
  /// What is in progress is waited for.
  Result<void> checked(ncclResult_t result, const char* call) const {
    while (result == ncclInProgress && communicator_ != nullptr)
      if (const auto asked = nccl_.async_error(communicator_, &result); asked != ncclSuccess)
        result = asked;
    if (result == ncclSuccess) return {};
    return nccl_.failure(call, device_.name(), "", result);
  }

  NcclLibrary nccl_;
  worker::Device& device_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<BareExchange>> BareExchange::open(worker::Device& device) {
  auto nccl = NcclLibrary::load(device.name());
  if (!nccl) return nccl.error();
  auto exchange = std::make_unique<Exchange>(*nccl, device);
  if (auto connected = exchange->connect(); !connected) return connected.error();
  return std::unique_ptr<BareExchange>(std::move(exchange));
}

}  // namespace lockstep::bench
