#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/collectives/reduction.h>
#include <lockstep/collectives/tcp/tcp_data.h>

namespace lockstep::collectives {
namespace {

using Kind = Collective::Kind;

/// No further piece is queued for a peer for which this many bytes are queued.
constexpr std::size_t kMostQueued = 512 * 1024;

}  // namespace

std::size_t TcpData::row_bytes() const {
  return static_cast<std::size_t>(collective_->row_elements) * dtype_size(collective_->dtype);
}

bool TcpData::reduces() const {
  return collective_->kind == Kind::AllReduce || collective_->kind == Kind::ReduceScatter;
}

std::int64_t TcpData::share(std::size_t rank) const {
  const std::int64_t elements = collective_->rows * collective_->row_elements;
  const auto size = static_cast<std::int64_t>(group_.ranks.size());
  const auto r = static_cast<std::int64_t>(rank);
  if (collective_->kind == Kind::ReduceScatter) return r * elements;
  return elements / size * r + std::min(r, elements % size);
}

void TcpData::start(const Collective& collective) {
  collective_ = collective;
  send_rows_.assign(collective.send_rows.begin(), collective.send_rows.end());
  receive_rows_.assign(collective.receive_rows.begin(), collective.receive_rows.end());
  second_ = false;
  exchange_blocks();
}

/// Starts one exchange. Every message begins with the shape that ranks must agree on.
void TcpData::exchange_blocks() {
  shape_ = shape_text(*collective_);
  if (second_) shape_ += ", its second half";
  ByteWriter head;
  head.text(shape_);
  head_ = std::move(head).take();
  blocks_.assign(group_.ranks.size(), {});
  lay_out();
}

void TcpData::swap(std::size_t peer, std::span<const std::byte> send,
                   std::span<std::byte> receive) {
  if (peer != static_cast<std::size_t>(group_.self.value)) {
    blocks_[peer] = {send, 0, true, true, receive};
  } else if (!send.empty() && send.data() != receive.data()) {
    std::memcpy(receive.data(), send.data(), send.size());
  }
}

void TcpData::lay_out() {
  const Collective& c = *collective_;
  if (reduces() && !second_) return lay_out_shares();
  if (c.kind == Kind::AllGather || second_) return lay_out_gather();
  const auto* send = static_cast<const std::byte*>(c.send);
  auto* receive = static_cast<std::byte*>(c.receive);
  const std::size_t row = row_bytes();
  if (c.kind == Kind::AllToAll) {
    for (std::size_t p = 0; p < blocks_.size(); ++p) {
      const auto out = static_cast<std::size_t>(send_rows_[p]) * row;
      const auto in = static_cast<std::size_t>(receive_rows_[p]) * row;
      swap(p, {send, out}, {receive, in});
      send += out;
      receive += in;
    }
    return;
  }
  const std::size_t all = static_cast<std::size_t>(c.rows) * row;  // bytes of a broadcast
  const auto root = static_cast<std::size_t>(c.root.value);
  if (c.root == group_.self) {
    for (std::size_t p = 0; p < blocks_.size(); ++p)
      if (p != root) blocks_[p] = {{receive, all}, 0, true, false, {}};
  } else {
    blocks_[root] = {{}, 0, false, true, {receive, all}};
  }
}

/// Sends each rank this rank's input to that rank's share.
void TcpData::lay_out_shares() {
  const std::size_t element = dtype_size(collective_->dtype);
  const auto self = static_cast<std::size_t>(group_.self.value);
  const auto* send = static_cast<const std::byte*>(collective_->send);
  const std::size_t mine = static_cast<std::size_t>(share(self + 1) - share(self)) * element;
  scratch_.resize(mine * blocks_.size());
  for (std::size_t p = 0; p < blocks_.size(); ++p) {
    const auto first = static_cast<std::size_t>(share(p)) * element;
    const auto end = static_cast<std::size_t>(share(p + 1)) * element;
    swap(p, {send + first, end - first}, {scratch_.data() + p * mine, mine});
  }
}

/// Sends this rank's rows, or its reduced share, to all others.
void TcpData::lay_out_gather() {
  const Collective& c = *collective_;
  const auto self = static_cast<std::size_t>(group_.self.value);
  auto* receive = static_cast<std::byte*>(c.receive);
  const std::size_t block = static_cast<std::size_t>(c.rows) * row_bytes();
  const auto place = [&](std::size_t p) {
    if (!second_) return std::span<std::byte>(receive + p * block, block);
    const std::size_t element = dtype_size(c.dtype);
    const auto first = static_cast<std::size_t>(share(p)) * element;
    return std::span<std::byte>(receive + first,
                                static_cast<std::size_t>(share(p + 1)) * element - first);
  };
  const std::span<const std::byte> mine =
      second_ ? place(self) : std::span(static_cast<const std::byte*>(c.send), block);
  for (std::size_t p = 0; p < blocks_.size(); ++p) swap(p, mine, place(p));
}

/// Queues pieces of the message to `peer` up to kMostQueued.
void TcpData::feed(std::size_t peer) {
  Block& block = blocks_[peer];
  const Rank to = group_.ranks[peer];
  const std::size_t total = head_.size() + block.send.size();
  Bytes first;
  while (block.sent < total && group_.mesh->queued(to) < kMostQueued) {
    std::span<const std::byte> piece;
    if (block.sent == 0) {  // the head and the rows that fit behind it
      const std::size_t with = std::min(block.send.size(), Part::kMostBytes - head_.size());
      first = head_;
      first.insert(first.end(), block.send.begin(),
                   block.send.begin() + static_cast<std::ptrdiff_t>(with));
      piece = first;
    } else {
      const auto rest = block.send.subspan(block.sent - head_.size());
      piece = rest.first(std::min(rest.size(), Part::kMostBytes));
    }
    group_.mesh->send_piece(to, group_.id, Part::Kind::Data, total, piece);
    block.sent += piece.size();
  }
  block.sends = block.sent < total || !group_.mesh->up(to);
}

Result<bool> TcpData::hear(std::size_t peer) {
  Block& block = blocks_[peer];
  const Rank from = group_.ranks[peer];
  const auto message = group_.mesh->take(from, group_.id, Part::Kind::Data);
  if (!message) return false;
  ByteReader reader(message->bytes);
  const std::string theirs = reader.text();
  const Rank self = group_.ranks[static_cast<std::size_t>(group_.self.value)];
  if (!reader.ok() || theirs != shape_)
    return Status{Code::Internal,
                  "Ranks met in different collectives.",
                  "",
                  {{RankSet::of(std::min(self, from)), self < from ? shape_ : theirs},
                   {RankSet::of(std::max(self, from)), self < from ? theirs : shape_}}};
  const std::span<const std::byte> rows = std::span(message->bytes).subspan(head_.size());
  if (rows.size() != block.receive.size())
    return internal_error(
        fmt::format("Split lists of {} do not fit: rank {} sends {} rows to rank {}, "
                    "which expects {}.",
                    collective_name(collective_->kind), from.value, rows.size() / row_bytes(),
                    self.value, block.receive.size() / row_bytes()));
  if (!rows.empty()) std::memcpy(block.receive.data(), rows.data(), rows.size());
  block.receives = false;
  return true;
}

void TcpData::reduce_share() {
  const Collective& c = *collective_;
  const auto self = static_cast<std::size_t>(group_.self.value);
  const std::int64_t elements = share(self + 1) - share(self);
  const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_size(c.dtype);
  if (bytes == 0) return;
  std::vector<const void*> blocks;
  for (std::size_t r = 0; r < blocks_.size(); ++r) blocks.push_back(scratch_.data() + r * bytes);
  reduce_ranks(c.dtype, c.reduce, blocks, scratch_.data(), elements);
  const std::size_t at =
      c.kind == Kind::AllReduce ? static_cast<std::size_t>(share(self)) * dtype_size(c.dtype) : 0;
  std::memcpy(static_cast<std::byte*>(c.receive) + at, scratch_.data(), bytes);
}

Result<bool> TcpData::advance() {
  while (collective_) {
    bool all = true;
    for (std::size_t p = 0; p < blocks_.size(); ++p) {
      if (blocks_[p].sends) feed(p);
      if (blocks_[p].receives)
        if (auto heard = hear(p); !heard) return heard;
      all = all && !blocks_[p].sends && !blocks_[p].receives;
    }
    if (!all) return false;
    if (reduces() && !second_) {
      reduce_share();
      if (collective_->kind == Kind::AllReduce) {
        second_ = true;
        exchange_blocks();
        continue;
      }
    }
    collective_.reset();
  }
  return true;
}

std::vector<Rank> TcpData::awaited() const {
  std::vector<Rank> out;
  for (std::size_t p = 0; collective_ && p < blocks_.size(); ++p)
    if (blocks_[p].receives || blocks_[p].sends) out.push_back(Rank{static_cast<std::int32_t>(p)});
  return out;
}

}  // namespace lockstep::collectives
