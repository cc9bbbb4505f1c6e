#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/checkpoint/piece.h>

namespace lockstep::worker {
namespace {

/// One tensor as all ranks have it.
struct Spread {
  const Piece* first = nullptr;
  Rank first_rank{};
  std::vector<Box> boxes;  // distinct
};

Status differs(const std::string& name, const Spread& spread, const Piece& other, Rank rank) {
  const auto text = [](const Piece& piece) {
    return fmt::format("{} of {} [{}]", quoted_name(piece.name), dtype_name(piece.dtype),
                       fmt::join(piece.global, ", "));
  };
  return {
      Code::ConstraintViolation,
      fmt::format("a checkpoint needs one dtype and one global shape of tensor {}: rank {} has "
                  "{}, rank {} has {}.",
                  quoted_name(name), spread.first_rank.value, text(*spread.first), rank.value,
                  text(other)),
      name,
      {{RankSet::of(spread.first_rank), text(*spread.first)}, {RankSet::of(rank), text(other)}}};
}

void put(ByteWriter& to, const std::vector<std::int64_t>& sizes) {
  to.u32(static_cast<std::uint32_t>(sizes.size()));
  for (const std::int64_t size : sizes) to.i64(size);
}
std::vector<std::int64_t> sizes_in(ByteReader& from) {
  std::vector<std::int64_t> out(from.count(8));
  for (std::int64_t& size : out) size = from.i64();
  return out;
}

}  // namespace

std::int64_t Piece::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : box.sizes) count *= size;
  return count;
}
std::uint64_t Piece::bytes() const {
  return static_cast<std::uint64_t>(elements()) * dtype_size(dtype);
}

std::string_view value_kind_name(ValueKind kind) {
  constexpr std::string_view kNames[] = {"int", "float", "bool", "text", "key"};
  return kNames[static_cast<std::size_t>(kind)];
}

Box common_part(const Box& a, const Box& b) {
  Box out = a;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    out.start[d] = std::max(a.start[d], b.start[d]);
    const std::int64_t end = std::min(a.start[d] + a.sizes[d], b.start[d] + b.sizes[d]);
    out.sizes[d] = std::max<std::int64_t>(0, end - out.start[d]);
  }
  return out;
}

bool is_empty(const Box& box) {
  return std::find(box.sizes.begin(), box.sizes.end(), 0) != box.sizes.end();
}

Result<void> check_filled(const std::vector<std::int64_t>& global, std::vector<Box> boxes) {
  const auto bad = [](const std::string& what) {
    return Status{Code::ConstraintViolation, what, {}, {}};
  };
  std::erase_if(boxes, is_empty);
  unsigned __int128 held = 0, all = 1;
  for (const std::int64_t size : global) all *= static_cast<std::uint64_t>(size);
  for (const Box& box : boxes) {
    if (!lies_within(box, global))
      return bad(fmt::format("has a piece {} outside of its sizes [{}]", box_text(box),
                             fmt::join(global, ", ")));
    unsigned __int128 count = 1;
    for (const std::int64_t size : box.sizes) count *= static_cast<std::uint64_t>(size);
    held += count;
  }
  if (!global.empty()) {
    std::sort(boxes.begin(), boxes.end(),
              [](const Box& a, const Box& b) { return a.start < b.start; });
    for (std::size_t i = 0; i < boxes.size(); ++i)
      for (std::size_t k = i + 1; k < boxes.size(); ++k) {
        if (boxes[k].start[0] >= boxes[i].start[0] + boxes[i].sizes[0]) break;
        if (!is_empty(common_part(boxes[i], boxes[k])))
          return bad(fmt::format("has pieces {} and {}, which overlap", box_text(boxes[i]),
                                 box_text(boxes[k])));
      }
  }
  if (held != all)
    return bad(
        fmt::format("of sizes [{}] has {} of its {} elements in pieces: some rank lacks its "
                    "own",
                    fmt::join(global, ", "), static_cast<std::uint64_t>(held),
                    static_cast<std::uint64_t>(all)));
  return {};
}

Result<std::vector<RankPieces>> plan_pieces(const std::vector<std::vector<Piece>>& all) {
  std::map<std::string_view, Spread> tensors;
  std::vector<RankPieces> out(all.size());
  for (std::size_t r = 0; r < all.size(); ++r)
    for (const Piece& piece : all[r]) {
      const Rank rank{static_cast<std::int32_t>(r)};
      Spread& spread = tensors[piece.name];
      if (spread.first == nullptr) spread.first = &piece, spread.first_rank = rank;
      if (spread.first->dtype != piece.dtype || spread.first->global != piece.global)
        return differs(piece.name, spread, piece, rank);
      const bool fresh =
          std::find(spread.boxes.begin(), spread.boxes.end(), piece.box) == spread.boxes.end();
      if (fresh) spread.boxes.push_back(piece.box);
      out[r].writes.push_back(fresh);
    }
  for (const auto& [name, spread] : tensors)
    if (auto filled = check_filled(spread.first->global, spread.boxes); !filled)
      return Status{Code::ConstraintViolation,
                    fmt::format("tensor {} {}.", quoted_name(name), filled.error().message),
                    std::string(name),
                    {}};
  return out;
}

Bytes pieces_bytes(const std::vector<Piece>& pieces) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(pieces.size()));
  for (const Piece& piece : pieces) {
    out.text(piece.name);
    out.u8(static_cast<std::uint8_t>(piece.dtype));
    put(out, piece.global), put(out, piece.box.start), put(out, piece.box.sizes);
  }
  return std::move(out).take();
}

Result<std::vector<Piece>> pieces_in(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::vector<Piece> out(in.count(17));
  for (Piece& piece : out) {
    piece.name = in.text();
    piece.dtype = static_cast<DType>(std::min<std::uint8_t>(in.u8(), 9));
    piece.global = sizes_in(in), piece.box.start = sizes_in(in), piece.box.sizes = sizes_in(in);
  }
  if (!in.ok() || !in.at_end())
    return Status{Code::Internal, "a list of pieces came damaged from another rank.", {}, {}};
  return out;
}

}  // namespace lockstep::worker
