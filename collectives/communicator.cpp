#include <numeric>

#include <fmt/format.h>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

std::string_view reduce_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::Sum:
      return "sum";
    case Reduce::Min:
      return "min";
    case Reduce::Max:
      return "max";
  }
  return "sum";
}

Status bad(const Collective& c, std::string what) {
  return bad_input(fmt::format("{}{}{}: {}.", collective_name(c.kind), c.label.empty() ? "" : " ",
                               c.label, what));
}

Result<void> check_counts(const Collective& c, std::span<const std::int64_t> counts,
                          std::string_view name, int size) {
  if (counts.size() != static_cast<std::size_t>(size))
    return bad(c, fmt::format("{} has {} counts for a group of {} ranks; give one per rank", name,
                              counts.size(), size));
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > kMaxElements / c.row_elements - total)
      return bad(c, fmt::format("{}[{}] is {}; counts are rows, from 0 up", name, i, counts[i]));
    total += counts[i];
  }
  return {};
}

}  // namespace

std::string_view collective_name(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::AllToAll:
      return "all_to_all_single";
    case Collective::Kind::AllReduce:
      return "all_reduce";
    case Collective::Kind::AllGather:
      return "all_gather_into_tensor";
    case Collective::Kind::ReduceScatter:
      return "reduce_scatter_tensor";
    case Collective::Kind::Broadcast:
      return "broadcast";
  }
  return "collective";
}

std::string shape_text(const Collective& c) {
  std::string out(collective_name(c.kind));
  if (c.kind == Collective::Kind::AllReduce || c.kind == Collective::Kind::ReduceScatter)
    out += fmt::format(" {}", reduce_name(c.reduce));
  out += fmt::format(" of {}", dtype_name(c.dtype));
  if (c.kind != Collective::Kind::AllToAll) out += fmt::format(", {} rows", c.rows);
  out += fmt::format(", {} elements per row", c.row_elements);
  if (c.kind == Collective::Kind::Broadcast) out += fmt::format(", root {}", c.root.value);
  return out;
}

Result<void> check(const Collective& c, int size) {
  using Kind = Collective::Kind;
  if (c.row_elements < 1)
    return bad(c, fmt::format("a row has {} elements; it needs at least 1", c.row_elements));
  if (c.kind == Kind::AllToAll) {
    if (auto ok = check_counts(c, c.send_rows, "send_rows", size); !ok) return ok;
    if (auto ok = check_counts(c, c.receive_rows, "receive_rows", size); !ok) return ok;
  } else if (c.rows < 0 || c.rows > kMaxElements / c.row_elements / size) {
    return bad(c, fmt::format("rows is {}; counts are rows, from 0 up", c.rows));
  }
  if (c.kind == Kind::Broadcast && (c.root.value < 0 || c.root.value >= size))
    return bad(c, fmt::format("root {} is not a rank of a group of {}", c.root.value, size));
  if (c.kind == Kind::AllReduce || c.kind == Kind::ReduceScatter) {
    if (c.dtype == DType::Bool && c.reduce == Reduce::Sum)
      return bad(c, "there is no sum over bool; cast to i64 first");
  }
  const CollectiveExtent extent = CollectiveExtent::of(c, size);
  if ((extent.send > 0 && c.send == nullptr) || (extent.receive > 0 && c.receive == nullptr))
    return bad(c, "a buffer is missing");
  return {};
}

CollectiveExtent CollectiveExtent::of(const Collective& c, int size) {
  const auto sum = [&](std::span<const std::int64_t> rows) {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) * c.row_elements;
  };
  const std::int64_t share = c.rows * c.row_elements;
  switch (c.kind) {
    case Collective::Kind::AllToAll:
      return {sum(c.send_rows), sum(c.receive_rows)};
    case Collective::Kind::AllReduce:
      return {share, share};
    case Collective::Kind::AllGather:
      return {share, share * size};
    case Collective::Kind::ReduceScatter:
      return {share * size, share};
    case Collective::Kind::Broadcast:
      return {0, share};
  }
  return {};
}

Result<void> Communicator::run(Round& round) {
  start(round);
  return wait();
}

}  // namespace lockstep::collectives
