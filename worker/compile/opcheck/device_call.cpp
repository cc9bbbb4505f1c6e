#include <cstring>

#include <fmt/format.h>

#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/opcheck/device_call.h>
#include <lockstep/worker/compile/opcheck/first_difference.h>
#include <lockstep/worker/compile/opcheck/single_rank.h>

namespace lockstep::worker {
namespace {

Status device_failure(std::string words) {
  return bad_input("a program for the device " + std::move(words));
}

/// A value in memory of the device. A value without elements stays on the host.
struct DeviceCopy {
  std::shared_ptr<const DeviceBlock> block;
  Array array;
};

Result<DeviceCopy> copied(const std::shared_ptr<Device>& device, const Array& value) {
  if (value.bytes() == 0) return DeviceCopy{nullptr, value};
  const auto memory = device->allocate(value.bytes());
  if (!memory) return memory.error();
  if (!*memory) return environment_error(fmt::format("{} has no memory left", device->name()));
  auto block = std::make_shared<const DeviceBlock>(device, **memory);
  if (auto sent = device->upload(**memory, value.data(), value.bytes()); !sent) return sent.error();
  if (auto done = device->synchronise(); !done) return done.error();
  return DeviceCopy{block, Array::far(value.dtype(), value.sizes(), block)};
}

Result<Array> run_on_copies(Executable& program, const std::shared_ptr<Device>& device,
                            const std::vector<Array>& inputs) {
  std::vector<DeviceCopy> copies;
  std::vector<Array> given;
  for (const Array& input : inputs) {
    auto copy = copied(device, input);
    if (!copy) return copy.error();
    given.push_back(copy->array);
    copies.push_back(*std::move(copy));
  }
  const auto outputs = run_on_one_rank(program, given);
  if (!outputs) return outputs.error();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (copies[k].block == nullptr) continue;
    Array now(inputs[k].dtype(), inputs[k].sizes());
    if (auto done = copies[k].block->fetch(now.data(), now.bytes()); !done) return done.error();
    if (const auto at = first_difference(inputs[k], now))
      return device_failure(fmt::format("writes to its input {}: element {} was {} and is {}", k,
                                        *at, inputs[k].at(*at), now.at(*at)));
  }
  return (*outputs)[0];
}

}  // namespace

Result<Array> device_call(Executable& program, const std::shared_ptr<Device>& device,
                          const OwnClaims& claims, const std::vector<Array>& inputs,
                          const std::vector<Array>& others) {
  auto first = run_on_copies(program, device, inputs);
  if (!first || !claims.deterministic) return first;
  if (auto between = run_on_copies(program, device, others); !between) return between;
  const auto again = run_on_copies(program, device, inputs);
  if (!again) return again;
  if (const auto at = first_difference(*first, *again))
    return device_failure(
        fmt::format("gives other bits for equal inputs: element {} is {}, and after a run on other "
                    "inputs {}; does it leave an element out, or depend on the order of threads? "
                    "If it is meant to, do not claim that it is deterministic",
                    *at, first->at(*at), again->at(*at)));
  return first;
}

}  // namespace lockstep::worker
