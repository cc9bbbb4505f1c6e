#include <algorithm>
#include <bit>
#include <limits>

#include <lockstep/worker/simulator/cost/cost_model.h>

namespace lockstep::worker::simulator {
namespace {

using Kind = DataCollective::Kind;

std::int64_t hops(int size) { return std::bit_width(static_cast<std::uint32_t>(size - 1)); }

/// Returns the time of `count` messages of `bytes` bytes, one after another.
std::int64_t messages(std::int64_t count, const Link& link, std::int64_t bytes) {
  return times(count,
               link.latency_ns + transfer_ns(static_cast<std::uint64_t>(bytes), link.bytes_per_us));
}

std::int64_t shared(std::int64_t bytes, int size) { return (bytes + size - 1) / size; }

}  // namespace

std::int64_t CostModel::compile_ns(const std::string& frame, std::size_t sources,
                                   std::size_t symbols) const {
  const CompileModel& compile = of(frame).compile;
  const std::int64_t of_sources = times(static_cast<std::int64_t>(sources), compile.per_source_ns);
  const std::int64_t of_symbols = times(static_cast<std::int64_t>(symbols), compile.per_symbol_ns);
  return capped_sum(capped_sum(compile.constant_ns, of_sources), of_symbols);
}

bool StepModel::counts_elements() const {
  return per_element_ps > 0 || (memory && memory->per_element > 0) ||
         std::any_of(kernels.begin(), kernels.end(), [](const KernelWork& kernel) {
           return kernel.bytes.per_element > 0 || kernel.flops.per_element > 0;
         });
}

std::int64_t CostModel::own_step_ns(const StepModel& step, std::int64_t elements) const {
  std::int64_t picoseconds = 0;
  if (__builtin_mul_overflow(elements, step.per_element_ps, &picoseconds)) return kLongest;
  std::int64_t out = capped_sum(step.constant_ns, std::min(picoseconds / 1000, kLongest));
  if (device)
    for (const KernelWork& kernel : step.kernels)
      out = capped_sum(out, kernels_ns(kernel, *device, elements));
  return out;
}

std::int64_t CostModel::data_ns(const StepModel& step, int size) const {
  const NetworkModel hosts = network.in_world(size);
  const bool launched = device && data_network && !data_network->staging && size > 1;
  std::int64_t out = 0;
  for (const DataCollective& collective : step.collectives) {
    const std::int64_t one = data_network ? collective_ns(collective, *data_network, size)
                                          : collective_ns(collective, hosts, size);
    out = capped_sum(out, times(collective.count, one + (launched ? device->launch_ns : 0)));
  }
  return out;
}

std::int64_t CostModel::skew_ns(std::uint64_t call, std::int32_t rank) const {
  if (!skew) return 0;
  constexpr std::uint64_t kPlace = 0x736B6577;  // "skew": a place that no draw of a call uses
  return times(std::max<std::int64_t>(0, skew->at(skew->place(seed, call, kPlace), rank)),
               skew_unit_ns);
}

std::int64_t collective_ns(const DataCollective& collective, const NetworkModel& network,
                           int size) {
  if (size == 1) return 0;
  const Link& link = network.ranks_per_host < size ? network.between : network.within;
  const std::int64_t bytes = collective.bytes, others = size - 1, doubling = hops(size);
  const bool power_of_two = std::has_single_bit(static_cast<std::uint32_t>(size));
  const std::int64_t share = shared(bytes, size);
  // Distances and blocks double or halve at each hop. That takes log2 n latencies and moves all
  // blocks but the rank's own.
  const auto logarithmic = [&] {
    return capped_sum(times(doubling, link.latency_ns),
                      transfer_ns(static_cast<std::uint64_t>(bytes - share), link.bytes_per_us));
  };
  switch (collective.kind) {
    case Kind::AllReduce:
      // Recursive doubling; ranks beyond a power of two are folded in first and get the result
      // last.
      if (bytes < 10'000) return messages(power_of_two ? doubling : doubling - 1 + 2, link, bytes);
      return messages(2 * others, link, share);
    case Kind::ReduceScatter:
      return bytes <= 12'288 ? logarithmic() : messages(others, link, share);
    case Kind::AllGather:
      return bytes < 50'000 ? logarithmic() : messages(others, link, share);
    case Kind::AllToAll:
      // Bruck's algorithm passes on half of all blocks at each distance. Otherwise all messages
      // leave at once if they have less than 3,000 bytes; else ranks exchange pair by pair.
      if (share < 200 && size > 12) return messages(doubling, link, share * (size / 2));
      if (share < 3'000)
        return capped_sum(link.latency_ns,
                          messages(others, {.bytes_per_us = link.bytes_per_us}, share));
      return messages(others, link, share);
  }
  return 0;
}

}  // namespace lockstep::worker::simulator
