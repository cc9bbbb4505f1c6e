#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/piece.h>

namespace lockstep::worker {
namespace {

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
  const auto bad = [](const std::string& what) { return Status{Code::ConstraintViolation, what}; };
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
    return internal_error("a list of pieces came damaged from another rank.");
  return out;
}

}  // namespace lockstep::worker
