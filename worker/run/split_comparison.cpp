#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/run/graph_collective.h>
#include <lockstep/worker/run/split_comparison.h>

namespace lockstep::worker {
namespace {

/// The count of a rank that has failed.
constexpr std::int64_t kNoCount = -1;

std::string rows_text(std::int64_t rows) {
  return fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
}

}  // namespace

std::string split_comparison_label(const Node& node) {
  return "row counts of " + collective_label(node);
}

Result<void> compare_splits(collectives::Communicator& group, RunHost& host, const Node& node,
                            std::span<const std::int64_t> splits, std::string_view label,
                            std::optional<Status>& misfit) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> sent(ranks, kNoCount), received(ranks, kNoCount);
  const std::vector<std::int64_t> one_each(ranks, 1);
  if (!splits.empty()) std::ranges::copy(splits.first(ranks), sent.begin());
  collectives::Collective counts;
  counts.kind = collectives::Collective::Kind::AllToAll;
  counts.dtype = DType::I64;
  counts.send = sent.data();
  counts.receive = received.data();
  counts.rows = group.size();
  counts.send_rows = counts.receive_rows = one_each;
  counts.label = label;
  if (auto done = group.run(counts); !done) return done.error();
  for (std::size_t peer = 0; !splits.empty() && peer < ranks; ++peer) {
    const std::int64_t expected = splits[ranks + peer];
    if (received[peer] == kNoCount || received[peer] == expected) continue;
    const auto in_job = [&](std::size_t place) {
      return host.rank_at(node.text, Rank{static_cast<std::int32_t>(place)}).value;
    };
    const auto self = static_cast<std::size_t>(group.rank().value);
    misfit = Status{
        Code::RuntimeAssert,
        fmt::format("{}: rank {} expects {} from rank {}, which sends {}; exchange the counts and "
                    "read out_splits from what they bring",
                    collective_label(node), in_job(self), rows_text(expected), in_job(peer),
                    received[peer])};
    return {};
  }
  return {};
}

}  // namespace lockstep::worker
