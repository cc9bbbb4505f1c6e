#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include <lockstep/collectives/base/half.h>
#include <lockstep/collectives/mpi_data.h>
#include <lockstep/collectives/reduction.h>

namespace lockstep::collectives {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
/// Elements per call of MPI_Allreduce, which takes 32-bit counts: longer reductions are split into
/// pieces.
constexpr std::int64_t kPiece = std::int64_t{1} << 30;

/// Each rank computes a small sum by itself, from the inputs of all ranks. A sum is small if these
/// inputs have at most kFewBytes together, or at most kNumberBytes each.
constexpr std::int64_t kFewBytes = 16 * 1024, kNumberBytes = 64;
/// Number of elements that each rank sums at a time.
constexpr std::int64_t kShare = std::int64_t{1} << 16;

std::int64_t dtype_bytes(DType dtype) { return static_cast<std::int64_t>(dtype_size(dtype)); }

MPI_Datatype element(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return MPI_C_BOOL;
    case DType::U8:
      return MPI_UINT8_T;
    case DType::I8:
      return MPI_INT8_T;
    case DType::I16:
      return MPI_INT16_T;
    case DType::I32:
      return MPI_INT32_T;
    case DType::I64:
      return MPI_INT64_T;
    case DType::F16:
    case DType::BF16:
      return MPI_UINT16_T;  // sent, never reduced: see reduce_wide()
    case DType::F32:
      return MPI_FLOAT;
    case DType::F64:
      return MPI_DOUBLE;
  }
  return MPI_BYTE;
}

/// Max and Min of floats, called by MPI. With MPI's own functions the result for NaN and for zeros
/// of both signs depends on the order of the operands, which may differ between ranks.
template <class T>
void join(Reduce reduce, const void* from, void* into, int elements) {
  const T* a = static_cast<const T*>(from);
  T* b = static_cast<T*>(into);
  for (int i = 0; i < elements; ++i)
    b[i] = reduce == Reduce::Max ? larger(a[i], b[i]) : smaller(a[i], b[i]);
}
template <Reduce reduce>
void join_floats(void* from, void* into, int* elements, MPI_Datatype* type) {
  if (*type == MPI_FLOAT)
    join<float>(reduce, from, into, *elements);
  else
    join<double>(reduce, from, into, *elements);
}

Status too_large(const Collective& c, std::string_view what) {
  return bad_input(
      fmt::format("{} {}: {} exceed what one MPI call can move; make rows longer or split "
                  "the tensor.",
                  collective_name(c.kind), c.label, what));
}

}  // namespace

MPI_Op MpiData::operation(const Collective& c) {
  if (c.reduce == Reduce::Sum) return MPI_SUM;
  const bool most = c.reduce == Reduce::Max;
  if (c.dtype == DType::Bool) return most ? MPI_LOR : MPI_LAND;
  if (c.dtype != DType::F32 && c.dtype != DType::F64) return most ? MPI_MAX : MPI_MIN;
  MPI_Op& op = most ? most_ : least_;
  if (op == MPI_OP_NULL)
    MPI_Op_create(most ? join_floats<Reduce::Max> : join_floats<Reduce::Min>, 1, &op);
  return op;
}

Result<void> MpiData::fits(const Collective& c) const {
  const auto total = [](std::span<const std::int64_t> rows) {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  };
  if (c.row_elements > kMaxInt) return too_large(c, "elements of a row");
  if (total(c.send_rows) > kMaxInt || total(c.receive_rows) > kMaxInt || c.rows > kMaxInt)
    return too_large(c, "rows");
  if (c.kind == Collective::Kind::ReduceScatter && c.rows * c.row_elements > kMaxInt)
    return too_large(c, "elements per rank");
  return {};
}

MPI_Datatype MpiData::row(const Collective& c) {
  if (c.row_elements == 1) return element(c.dtype);
  const auto [it, fresh] = rows_.try_emplace({c.dtype, c.row_elements}, MPI_DATATYPE_NULL);
  if (fresh) {
    MPI_Type_contiguous(static_cast<int>(c.row_elements), element(c.dtype), &it->second);
    MPI_Type_commit(&it->second);
  }
  return it->second;
}

int MpiData::all_to_all(const Collective& c) {
  const auto n = static_cast<std::size_t>(size_);
  counts_.resize(4 * n);
  const auto lay_out = [&](std::span<const std::int64_t> rows, std::size_t at) {
    int place = 0;
    for (std::size_t p = 0; p < n; ++p) {
      counts_[at + p] = static_cast<int>(rows[p]);
      counts_[at + n + p] = place;
      place += counts_[at + p];
    }
  };
  lay_out(c.send_rows, 0);
  lay_out(c.receive_rows, 2 * n);
  const int* counts = counts_.data();
  const MPI_Datatype type = row(c);
  return MPI_Alltoallv(c.send, counts, counts + n, type, c.receive, counts + 2 * n, counts + 3 * n,
                       type, comm_);
}

int MpiData::all_reduce(const Collective& c) {
  const std::int64_t elements = c.rows * c.row_elements;
  const std::int64_t bytes = dtype_bytes(c.dtype);
  for (std::int64_t done = 0; done < elements || done == 0; done += kPiece) {
    const std::int64_t piece = std::min(kPiece, elements - done);
    const int rc = MPI_Allreduce(static_cast<const std::byte*>(c.send) + done * bytes,
                                 static_cast<std::byte*>(c.receive) + done * bytes,
                                 static_cast<int>(piece), element(c.dtype), operation(c), comm_);
    if (rc != MPI_SUCCESS || elements == 0) return rc;
  }
  return MPI_SUCCESS;
}

void MpiData::sum_blocks(DType dtype, std::int64_t elements) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_size(dtype);
  std::vector<const void*> blocks;
  for (int r = 0; r < size_; ++r)
    blocks.push_back(scratch_.data() + static_cast<std::size_t>(r) * bytes);
  reduce_ranks(dtype, Reduce::Sum, blocks, scratch_.data(), elements);
}

int MpiData::all_sum(const Collective& c) {
  const std::int64_t elements = c.rows * c.row_elements, bytes = dtype_bytes(c.dtype);
  const MPI_Datatype type = element(c.dtype);
  const auto* send = static_cast<const std::byte*>(c.send);
  auto* receive = static_cast<std::byte*>(c.receive);
  if (elements * bytes <= std::max(kFewBytes / size_, kNumberBytes)) {
    const int count = static_cast<int>(elements);
    make_room(elements * bytes * size_);
    const int rc = MPI_Allgather(send, count, type, scratch_.data(), count, type, comm_);
    if (rc != MPI_SUCCESS || elements == 0) return rc;
    sum_blocks(c.dtype, elements);
    std::memcpy(receive, scratch_.data(), static_cast<std::size_t>(elements * bytes));
    return rc;
  }
  // Each rank sums a share of every part and sends the sum to all.
  int self = 0;
  MPI_Comm_rank(comm_, &self);
  const auto n = static_cast<std::size_t>(size_);
  const std::int64_t most = std::min(kShare * size_, kPiece);  // MPI's counts are ints
  for (std::int64_t done = 0; done < elements; done += most) {
    const std::int64_t part = std::min(most, elements - done);
    const auto share = [&](int r) { return static_cast<int>(part * r / size_); };
    const int mine = share(self + 1) - share(self);
    counts_.resize(4 * n);
    for (int r = 0; r < size_; ++r) {
      const auto at = static_cast<std::size_t>(r);
      counts_[at] = share(r + 1) - share(r);
      counts_[n + at] = share(r);
      counts_[2 * n + at] = mine;
      counts_[3 * n + at] = mine * r;
    }
    const int* counts = counts_.data();
    make_room(std::int64_t{mine} * size_ * bytes);
    int rc = MPI_Alltoallv(send + done * bytes, counts, counts + n, type, scratch_.data(),
                           counts + 2 * n, counts + 3 * n, type, comm_);
    if (rc != MPI_SUCCESS) return rc;
    if (mine > 0) sum_blocks(c.dtype, mine);
    rc = MPI_Allgatherv(scratch_.data(), mine, type, receive + done * bytes, counts, counts + n,
                        type, comm_);
    if (rc != MPI_SUCCESS) return rc;
  }
  return MPI_SUCCESS;
}

int MpiData::reduce_scatter_sum(const Collective& c) {
  const std::int64_t elements = c.rows * c.row_elements, bytes = dtype_bytes(c.dtype);
  const MPI_Datatype type = element(c.dtype);
  const auto* send = static_cast<const std::byte*>(c.send);
  for (std::int64_t done = 0; done < elements || done == 0; done += kShare) {
    const std::int64_t part = std::min(kShare, elements - done);
    const auto block = static_cast<std::size_t>(part * bytes);
    make_room(part * bytes * size_);
    packed_.resize(scratch_.size());
    for (std::int64_t r = 0; r < size_ && block > 0; ++r)
      std::memcpy(packed_.data() + static_cast<std::size_t>(r) * block,
                  send + (r * elements + done) * bytes, block);
    const int rc = MPI_Alltoall(packed_.data(), static_cast<int>(part), type, scratch_.data(),
                                static_cast<int>(part), type, comm_);
    if (rc != MPI_SUCCESS || elements == 0) return rc;
    sum_blocks(c.dtype, part);
    std::memcpy(static_cast<std::byte*>(c.receive) + done * bytes, scratch_.data(), block);
  }
  return MPI_SUCCESS;
}

void MpiData::make_room(std::int64_t bytes) {
  scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(bytes)));
}

/// MPI cannot reduce f16 and bf16: reduces them as f32 and rounds once more.
int MpiData::reduce_wide(const Collective& c) {
  const CollectiveExtent extent = CollectiveExtent::of(c, size_);
  std::vector<float> send(static_cast<std::size_t>(extent.send)),
      receive(static_cast<std::size_t>(extent.receive));
  widen_halves(c.dtype, static_cast<const std::uint16_t*>(c.send), send.data(), extent.send);
  Collective wide = c;
  wide.dtype = DType::F32;
  wide.send = send.data();
  wide.receive = receive.data();
  const int rc = run(wide);
  if (rc == MPI_SUCCESS)
    narrow_floats(c.dtype, receive.data(), static_cast<std::uint16_t*>(c.receive), extent.receive);
  return rc;
}

int MpiData::run(const Collective& c) {
  const bool reduces =
      c.kind == Collective::Kind::AllReduce || c.kind == Collective::Kind::ReduceScatter;
  if (reduces && is_half(c.dtype)) return reduce_wide(c);
  if (reduces && c.reduce == Reduce::Sum && (c.dtype == DType::F32 || c.dtype == DType::F64))
    return c.kind == Collective::Kind::AllReduce ? all_sum(c) : reduce_scatter_sum(c);
  const int rows = static_cast<int>(c.rows);
  switch (c.kind) {
    case Collective::Kind::AllToAll:
      return all_to_all(c);
    case Collective::Kind::AllReduce:
      return all_reduce(c);
    case Collective::Kind::AllGather:
      return MPI_Allgather(c.send, rows, row(c), c.receive, rows, row(c), comm_);
    case Collective::Kind::ReduceScatter:
      return MPI_Reduce_scatter_block(c.send, c.receive, static_cast<int>(c.rows * c.row_elements),
                                      element(c.dtype), operation(c), comm_);
    case Collective::Kind::Broadcast:
      return MPI_Bcast(c.receive, rows, row(c), c.root.value, comm_);
  }
  return MPI_ERR_OTHER;
}

void MpiData::release() {
  for (auto& [key, type] : rows_) MPI_Type_free(&type);
  rows_.clear();
  for (MPI_Op* op : {&most_, &least_})
    if (*op != MPI_OP_NULL) MPI_Op_free(op);
}

}  // namespace lockstep::collectives
