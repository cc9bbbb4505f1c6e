#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include <lockstep/worker/compile/interpreter/interpret_order.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/compile/sums/join_order.h>
#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

std::int64_t row_elements(const Array& rows) {
  std::int64_t n = 1;
  for (std::size_t d = 1; d < rows.sizes().size(); ++d) n *= rows.sizes()[d];
  return n;
}

std::optional<Status> check_range(const NodeCall& call, const Array& index, std::int64_t limit) {
  for (std::int64_t i = 0; i < index.elements(); ++i) {
    const std::int64_t at = index.data_as<std::int64_t>()[i];
    if (at < 0 || at >= limit) return index_failure(*call.graph, call.id, i, at, limit);
  }
  return std::nullopt;
}

Result<Array> index_select(const NodeCall& call) {
  const Array& x = *call.operands[0];
  const Array& index = *call.operands[1];
  if (auto bad = check_range(call, index, x.sizes()[0])) return *std::move(bad);
  Array out(call.dtype(), call.sizes);
  const std::size_t bytes = static_cast<std::size_t>(row_elements(x)) * dtype_size(call.dtype());
  for (std::int64_t i = 0; bytes > 0 && i < index.elements(); ++i)
    std::memcpy(static_cast<std::byte*>(out.data()) + static_cast<std::size_t>(i) * bytes,
                static_cast<const std::byte*>(x.data()) +
                    static_cast<std::size_t>(index.data_as<std::int64_t>()[i]) * bytes,
                bytes);
  return out;
}

Result<Array> gather(const NodeCall& call) {
  const Array& x = *call.operands[0];
  const Array& index = *call.operands[1];
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  if (auto bad = check_range(call, index, x.sizes()[dim])) return *std::move(bad);
  Array out(call.dtype(), call.sizes);
  const std::vector<std::int64_t> strides = row_major(x.sizes());
  const std::size_t width = dtype_size(call.dtype());
  std::vector<std::int64_t> place(call.sizes.size(), 0);
  for (std::int64_t i = 0; i < out.elements(); ++i, advance(place, call.sizes)) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < place.size(); ++d)
      from += strides[d] * (d == dim ? index.data_as<std::int64_t>()[i] : place[d]);
    std::memcpy(static_cast<std::byte*>(out.data()) + static_cast<std::size_t>(i) * width,
                static_cast<const std::byte*>(x.data()) + static_cast<std::size_t>(from) * width,
                width);
  }
  return out;
}

Result<Array> checked_index(const NodeCall& call) {
  if (auto bad = check_range(call, *call.operands[0], call.exprs[0])) return *std::move(bad);
  return *call.operands[0];
}

/// Adds up the rows of each index, in the order of sums/join_order.h.
template <class T>
void join_rows(const NodeCall& call, Array& out) {
  const Array& index = *call.operands[0];
  const T* rows = call.operands[1]->data_as<T>();
  const std::int64_t width = row_elements(out);
  std::vector<std::vector<std::int64_t>> of(static_cast<std::size_t>(out.sizes()[0]));
  for (std::int64_t i = 0; i < index.elements(); ++i)
    of[static_cast<std::size_t>(index.data_as<std::int64_t>()[i])].push_back(i);
  T* to = out.data_as<T>();
  for (const std::vector<std::int64_t>& mine : of)
    for (std::int64_t j = 0; j < width; ++j) {
      const auto value = [&](std::int64_t k) {
        return rows[mine[static_cast<std::size_t>(k)] * width + j];
      };
      const auto n = static_cast<std::int64_t>(mine.size());
      if (!joins_numbers(call.node())) {
        SumOfTerms<SumJoin> terms;
        add_column<SumJoin, T>(terms, n, value);
        *to++ = static_cast<T>(terms.total());
        continue;
      }
      double total = 0, lost = 0;
      for (std::int64_t k = 0; k < n; ++k) add_compensated(total, lost, value(k));
      *to++ = static_cast<T>(std::is_same_v<T, double> ? compensated_total(total, lost) : total);
    }
}

Result<Array> index_add(const NodeCall& call) {
  const Array& index = *call.operands[0];
  const Array& rows = *call.operands[1];
  if (auto bad = check_range(call, index, call.exprs[0])) return *std::move(bad);
  Array out = Array::zeros(call.dtype(), call.sizes);
  const std::int64_t width = row_elements(rows);
  if (has_join_order(call.node())) {
    call.dtype() == DType::F32 ? join_rows<float>(call, out) : join_rows<double>(call, out);
    return out;
  }
  with_type(call.dtype(), [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < index.elements(); ++i) {
      T* to = out.data_as<T>() + index.data_as<std::int64_t>()[i] * width;
      for (std::int64_t j = 0; j < width; ++j)
        to[j] = wrapping(to[j], rows.data_as<T>()[i * width + j], std::plus());
    }
  });
  return out;
}

template <class T>
T joined(Put mode, T mine, T other) {
  switch (mode) {
    case Put::Set:
      return other;
    case Put::Multiply:
      return wrapping(mine, other, std::multiplies());
    case Put::Max:
      return mine == mine && (other > mine || other != other) ? other : mine;
    case Put::Min:
      return mine == mine && (other < mine || other != other) ? other : mine;
  }
  return mine;
}

Result<Array> index_put(const NodeCall& call) {
  const Array& x = *call.operands[0];
  const Array& index = *call.operands[1];
  const Array& rows = *call.operands[2];
  if (auto bad = check_range(call, index, x.sizes()[0])) return *std::move(bad);
  const auto mode = static_cast<Put>(call.node().ints[0]);
  Array out(call.dtype(), call.sizes);
  const std::int64_t width = row_elements(rows);
  const std::size_t bytes = static_cast<std::size_t>(width) * dtype_size(call.dtype());
  const auto row = [&](std::int64_t i) { return static_cast<std::size_t>(i) * bytes; };
  auto* to = static_cast<std::byte*>(out.data());
  const auto* from = static_cast<const std::byte*>(rows.data());
  if (out.elements() > 0) std::memcpy(to, x.data(), row(x.sizes()[0]));
  if (mode == Put::Set) {
    for (std::int64_t i = 0; bytes > 0 && i < index.elements(); ++i)
      std::memcpy(to + row(index.data_as<std::int64_t>()[i]), from + row(i), bytes);
    return out;
  }
  with_type(call.dtype(), [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < index.elements(); ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        T& element = out.data_as<T>()[index.data_as<std::int64_t>()[i] * width + j];
        element = joined(mode, element, rows.data_as<T>()[i * width + j]);
      }
  });
  return out;
}

Result<Array> segment_ids(const NodeCall& call) {
  const Array& list = *call.operands[0];
  const std::span counts(list.data_as<std::int64_t>(), static_cast<std::size_t>(list.elements()));
  if (!counts_add_up(counts, call.sizes[0]))
    return counts_failure(*call.graph, call.id, counts, call.sizes[0]);
  Array out(DType::I64, call.sizes);
  std::int64_t* to = out.data_as<std::int64_t>();
  for (std::size_t k = 0; k < counts.size(); ++k)
    to = std::fill_n(to, counts[k], static_cast<std::int64_t>(k));
  return out;
}

Result<Array> nonzero(const NodeCall& call) {
  Array out = Array::zeros(DType::I64, call.sizes);
  const Array& mask = *call.operands[0];
  for (std::int64_t i = 0, at = 0; i < mask.elements() && at < out.elements(); ++i)
    if (mask.data_as<bool>()[i]) out.data_as<std::int64_t>()[at++] = i;
  return out;
}

constexpr OpMap<Result<Array> (*)(const NodeCall&)> kIndexOps(
    of_class<OpClass::Index>, {{Op::IndexSelect, index_select},
                               {Op::IndexAdd, index_add},
                               {Op::Argsort, interpret_argsort},
                               {Op::Cumsum, interpret_cumsum},
                               {Op::SegmentIds, segment_ids},
                               {Op::Nonzero, nonzero},
                               {Op::Gather, gather},
                               {Op::CheckedIndex, checked_index},
                               {Op::IndexPut, index_put},
                               {Op::Cumprod, interpret_cumprod},
                               {Op::CumArgmax, interpret_cum_argmax},
                               {Op::LogCumsumExp, interpret_logcumsumexp},
                               {Op::SearchSorted, interpret_searchsorted}});

}  // namespace

Result<Array> interpret_index(const NodeCall& call) { return kIndexOps[call.node().op](call); }

}  // namespace lockstep::worker
