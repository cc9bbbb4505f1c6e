#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/collectives/census.h>
#include <lockstep/collectives/reduction.h>
#include <lockstep/collectives/simulated/simulated_data.h>

namespace lockstep::collectives {
namespace {

using Kind = Collective::Kind;

std::byte* at(void* base, const Collective& c, std::int64_t row) {
  return static_cast<std::byte*>(base) +
         row * c.row_elements * static_cast<std::int64_t>(dtype_size(c.dtype));
}
const std::byte* at(const void* base, const Collective& c, std::int64_t row) {
  return at(const_cast<void*>(base), c, row);
}

void copy_rows(const Collective& c, void* to, const void* from, std::int64_t rows) {
  if (rows == 0) return;
  std::memcpy(to, from, static_cast<std::size_t>(rows * c.row_elements) * dtype_size(c.dtype));
}

/// Reduces the `send` rows [first, first + rows) of all ranks, in rank order.
void reduce_all(std::span<const Collective> of_rank, void* to, std::int64_t first,
                std::int64_t rows) {
  const Collective& c = of_rank[0];
  if (rows == 0) return;
  std::vector<const void*> blocks;
  for (const Collective& each : of_rank) blocks.push_back(at(each.send, c, first));
  reduce_ranks(c.dtype, c.reduce, blocks, to, rows * c.row_elements);
}

void all_to_all(std::span<const Collective> of_rank) {
  std::vector<std::int64_t> read(of_rank.size(), 0);  // rows handed out so far, by sender
  for (std::size_t to = 0; to < of_rank.size(); ++to) {
    std::int64_t written = 0;
    for (std::size_t from = 0; from < of_rank.size(); ++from) {
      const Collective& c = of_rank[from];
      const std::int64_t rows = c.send_rows[to];
      copy_rows(c, rows ? at(of_rank[to].receive, c, written) : nullptr,
                rows ? at(c.send, c, read[from]) : nullptr, rows);
      read[from] += rows;
      written += rows;
    }
  }
}

}  // namespace

Result<void> fit_together(std::span<const Collective> of_rank) {
  Census census;
  for (std::size_t r = 0; r < of_rank.size(); ++r)
    census.add(RankSet::of(Rank{static_cast<std::int32_t>(r)}), shape_text(of_rank[r]));
  if (!census.unanimous())
    return Status{Code::Internal, "Ranks met in different collectives.", "", census.values()};
  if (of_rank[0].kind != Kind::AllToAll) return {};
  for (std::size_t from = 0; from < of_rank.size(); ++from)
    for (std::size_t to = 0; to < of_rank.size(); ++to) {
      const std::int64_t sent = of_rank[from].send_rows[to];
      const std::int64_t expected = of_rank[to].receive_rows[from];
      if (sent == expected) continue;
      return internal_error(
          fmt::format("Split lists of all_to_all_single do not fit: rank {} sends {} rows "
                      "to rank {}, which expects {}.",
                      from, sent, to, expected));
    }
  return {};
}

void reduce_copies(const Collective& c, int copies) {
  copy_rows(c, c.receive, c.send, c.rows);
  if (c.reduce == Reduce::Sum)
    multiply_elements(c.dtype, c.receive, copies, c.rows * c.row_elements);
}

void carry_out(std::span<const Collective> of_rank) {
  const Collective& first = of_rank[0];
  const auto size = static_cast<std::int64_t>(of_rank.size());
  if (first.kind == Kind::AllToAll) return all_to_all(of_rank);
  for (std::int64_t r = 0; r < size; ++r) {
    const Collective& c = of_rank[static_cast<std::size_t>(r)];
    switch (first.kind) {
      case Kind::AllReduce:
        reduce_all(of_rank, c.receive, 0, c.rows);
        break;
      case Kind::ReduceScatter:
        reduce_all(of_rank, c.receive, r * c.rows, c.rows);
        break;
      case Kind::AllGather:
        for (std::int64_t from = 0; c.rows > 0 && from < size; ++from)
          copy_rows(c, at(c.receive, c, from * c.rows),
                    of_rank[static_cast<std::size_t>(from)].send, c.rows);
        break;
      case Kind::Broadcast:
        if (r != c.root.value)
          copy_rows(c, c.receive, of_rank[static_cast<std::size_t>(c.root.value)].receive, c.rows);
        break;
      case Kind::AllToAll:
        break;
    }
  }
}

}  // namespace lockstep::collectives
