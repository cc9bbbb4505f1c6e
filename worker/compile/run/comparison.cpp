#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/compile/run/comparison.h>
#include <lockstep/worker/compile/run/graph_collective.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

/// Sent by a rank that has failed, in place of a size. No size has this value.
constexpr std::int64_t kFailed = std::numeric_limits<std::int64_t>::min();

/// Returns the maximum of every value and of its negative, over the ranks that have not failed.
Result<std::vector<std::int64_t>> extremes(collectives::Communicator& group, std::size_t count,
                                           std::span<const std::int64_t> values,
                                           std::string_view label) {
  std::vector<std::int64_t> mine(2 * count, kFailed), all(2 * count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    mine[2 * i] = values[i];
    mine[2 * i + 1] = -values[i];
  }
  collectives::Collective over;
  over.kind = collectives::Collective::Kind::AllReduce;
  over.reduce = collectives::Reduce::Max;
  over.dtype = DType::I64;
  over.send = mine.data();
  over.receive = all.data();
  over.rows = static_cast<std::int64_t>(mine.size());
  over.label = label;
  if (auto done = group.run(over); !done) return done.error();
  return all;
}

/// Returns this size on every rank of the group, in order of rank.
Result<std::vector<std::int64_t>> of_all(collectives::Communicator& group, std::int64_t mine,
                                         std::string_view label) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  collectives::Collective over;
  over.kind = collectives::Collective::Kind::AllGather;
  over.dtype = DType::I64;
  over.send = &mine;
  over.receive = all.data();
  over.rows = 1;
  over.label = label;
  if (auto done = group.run(over); !done) return done.error();
  return all;
}

std::vector<RankValue> table(const Node& node, RunHost& host,
                             std::span<const std::int64_t> values) {
  std::vector<RankValue> out;
  for (std::size_t place = 0; place < values.size(); ++place) {
    if (values[place] == kFailed) continue;
    const RankSet rank =
        RankSet::of(host.rank_at(node.text, Rank{static_cast<std::int32_t>(place)}));
    const std::string value = std::to_string(values[place]);
    const auto known = std::ranges::find(out, value, &RankValue::value);
    if (known == out.end())
      out.push_back({rank, value});
    else
      known->ranks.insert(rank);
  }
  return out;
}

/// Sent by a rank that has failed, in place of a count.
constexpr std::int64_t kNoCount = -1;

std::string rows_text(std::int64_t rows) {
  return fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
}

}  // namespace

std::string size_comparison_label(const Node& node) { return "sizes of " + collective_label(node); }

Result<void> compare_sizes(collectives::Communicator& group, RunHost& host, const Graph& graph,
                           const Node& node, std::span<const shapes::Expr> sizes,
                           std::span<const std::int64_t> values, std::string_view label,
                           std::optional<Status>& misfit) {
  const auto all = extremes(group, sizes.size(), values, label);
  if (!all) return all.error();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // All ranks have failed, or all ranks that have not failed have the same value.
    if ((*all)[2 * i] == kFailed || (*all)[2 * i] == -(*all)[2 * i + 1]) continue;
    const auto each = of_all(group, values.empty() ? kFailed : values[i], label);
    if (!each) return each.error();
    const std::string name = sizes[i].text(symbol_namer(graph));
    std::vector<RankValue> groups = table(node, host, *each);
    misfit =
        Status{Code::ConstraintViolation,
               fmt::format("{}: {} is {} on {} and {} on {}, and {} needs it to be the same on all "
                           "ranks{}; pad it to one size, or exchange rows with all_to_all_single",
                           collective_label(node), name, groups.at(0).value,
                           groups[0].ranks.phrase(), groups.at(1).value, groups[1].ranks.phrase(),
                           op_row(node.op).name, node.text.empty() ? "" : " of the group"),
               name, std::move(groups)};
    return {};
  }
  return {};
}

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
