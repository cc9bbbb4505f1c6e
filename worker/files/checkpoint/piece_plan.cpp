#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/piece_plan.h>

namespace lockstep::worker {
namespace {

Status damaged() { return internal_error("a list of pieces came damaged from another rank."); }

void put(ByteWriter& out, const Status& status) {
  out.u8(static_cast<std::uint8_t>(status.code));
  out.text(status.message), out.text(status.source);
  out.u32(static_cast<std::uint32_t>(status.groups.size()));
  for (const RankValue& group : status.groups) {
    out.i64(group.ranks.lowest().value);
    out.text(group.value);
  }
}
/// Reads what put() wrote. Each group has one rank.
Status status_in(ByteReader& in) {
  Status out;
  out.code = in.u8() == static_cast<std::uint8_t>(Code::ConstraintViolation)
                 ? Code::ConstraintViolation
                 : Code::Internal;
  out.message = in.text(), out.source = in.text();
  for (std::uint32_t left = in.count(12); left > 0; --left) {
    const Rank rank{static_cast<std::int32_t>(std::clamp<std::int64_t>(in.i64(), 0, INT32_MAX))};
    out.groups.push_back({RankSet::of(rank), in.text()});
  }
  return in.ok() ? out : damaged();
}

Status differs(const Piece& first, std::int32_t first_rank, const Piece& other, std::int32_t rank) {
  const auto text = [](const Piece& piece) {
    return fmt::format("{} of {} [{}]", quoted_name(piece.name), dtype_name(piece.dtype),
                       fmt::join(piece.global, ", "));
  };
  return {Code::ConstraintViolation,
          fmt::format("a checkpoint needs one dtype and one global shape of tensor {}: rank {} has "
                      "{}, rank {} has {}.",
                      quoted_name(first.name), first_rank, text(first), rank, text(other)),
          first.name,
          {{RankSet::of(Rank{first_rank}), text(first)}, {RankSet::of(Rank{rank}), text(other)}}};
}

}  // namespace

PiecePlan::PiecePlan(Rank self, std::string save, const std::vector<Piece>& mine)
    : save_(std::move(save)), order_(mine.size()) {
  std::vector<std::size_t> numbers(mine.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::sort(numbers.begin(), numbers.end(),
            [&](std::size_t a, std::size_t b) { return before(mine[a], mine[b]); });
  for (const std::size_t number : numbers) {
    order_[number] = own_.held.size();
    own_.held.push_back({mine[number], self.value});
  }
}

bool PiecePlan::before(const Piece& a, const Piece& b) {
  const auto key = [](const Piece& p) {
    return std::tie(p.name, p.dtype, p.global, p.box.start, p.box.sizes);
  };
  return key(a) < key(b);
}

void PiecePlan::heard(bool left, std::span<const std::byte> word) {
  ByteReader in(word);
  if (in.u8() != 0) {
    failure_ = status_in(in);
    return;
  }
  if (const std::string save = in.text(); !save.empty()) save_ = save;
  const std::string list = in.text();
  auto pieces = pieces_in(std::as_bytes(std::span(list)));
  if (!pieces) failure_ = pieces.error();
  Source& source = left ? left_ : right_;
  for (std::size_t i = 0; !failure_ && i < pieces->size(); ++i) {
    const auto lowest = static_cast<std::int32_t>(std::min<std::uint32_t>(in.u32(), INT32_MAX));
    source.held.push_back({std::move((*pieces)[i]), lowest});
    if (i > 0 && !before(source.held[i - 1].piece, source.held[i].piece)) failure_ = damaged();
  }
  if (!failure_ && (!in.ok() || !in.at_end())) failure_ = damaged();
}

/// Merges the three sorted lists. Ranks rise from left to right, so the first source with a piece
/// has the lowest rank.
void PiecePlan::join() {
  Source* const sources[] = {&left_, &own_, &right_};
  std::size_t next[] = {0, 0, 0};
  for (;;) {
    const Held* least = nullptr;
    for (std::size_t s = 0; s < 3; ++s)
      if (next[s] < sources[s]->held.size())
        if (const Held& held = sources[s]->held[next[s]];
            least == nullptr || before(held.piece, least->piece))
          least = &held;
    if (least == nullptr) break;
    all_.push_back(*least);
    for (std::size_t s = 0; s < 3; ++s)
      if (next[s] < sources[s]->held.size() &&
          sources[s]->held[next[s]].piece == all_.back().piece) {
        sources[s]->places.push_back(all_.size() - 1);
        ++next[s];
      }
  }
}

Bytes PiecePlan::word() {
  if (!failure_) join();
  lower_.assign(all_.size(), false);
  ByteWriter out;
  out.u8(failure_ ? 1 : 0);
  if (failure_) {
    put(out, *failure_);
    return std::move(out).take();
  }
  std::vector<Piece> pieces;
  for (const Held& held : all_) pieces.push_back(held.piece);
  const Bytes list = pieces_bytes(pieces);
  out.text(save_);
  out.text({reinterpret_cast<const char*>(list.data()), list.size()});
  for (const Held& held : all_) out.u32(static_cast<std::uint32_t>(held.lowest));
  return std::move(out).take();
}

/// Reads the answer: the name of the save and a bit for each piece that word() sent, or the
/// failure.
void PiecePlan::answered(std::span<const std::byte> answer) {
  answered_ = true;
  ByteReader in(answer);
  if (in.u8() != 0) {
    failure_ = status_in(in);
    return;
  }
  save_ = in.text();
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    if (i % 8 == 0) bits = in.u8();
    lower_[i] = (bits >> (i % 8) & 1) != 0;
  }
  if (!in.ok() || !in.at_end()) failure_ = damaged();
}

bool PiecePlan::lower_has(std::size_t place, std::initializer_list<const Source*> beside) const {
  if (lower_[place]) return true;
  return std::any_of(beside.begin(), beside.end(), [&](const Source* source) {
    return std::binary_search(source->places.begin(), source->places.end(), place);
  });
}

Bytes PiecePlan::answer(bool left) {
  if (!answered_ && !failure_) failure_ = first_error(all_);  // this rank heads the tree
  answered_ = true;
  ByteWriter out;
  out.u8(failure_ ? 1 : 0);
  if (failure_) {
    put(out, *failure_);
    return std::move(out).take();
  }
  out.text(save_);
  const std::vector<std::size_t>& places = (left ? left_ : right_).places;
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool lower = left ? lower_[places[i]] : lower_has(places[i], {&left_, &own_});
    bits = static_cast<std::uint8_t>(bits | (lower ? 1U << (i % 8) : 0U));
    if (i % 8 == 7 || i + 1 == places.size()) out.u8(std::exchange(bits, std::uint8_t{0}));
  }
  return std::move(out).take();
}

Result<std::vector<bool>> PiecePlan::writes() const {
  // In a tree of one rank answer() is never called.
  const auto flaw = answered_ || failure_ ? failure_ : first_error(all_);
  if (flaw) return *flaw;
  std::vector<bool> out;
  for (const std::size_t at : order_) out.push_back(!lower_has(own_.places[at], {&left_}));
  return out;
}

/// Requires that pieces of one tensor are adjacent.
std::optional<Status> PiecePlan::first_error(const std::vector<Held>& all) {
  for (auto at = all.begin(); at != all.end();) {
    const auto end = std::find_if(
        at, all.end(), [&](const Held& held) { return held.piece.name != at->piece.name; });
    const auto by_rank = [](const Held& a, const Held& b) { return a.lowest < b.lowest; };
    const Held& first = *std::min_element(at, end, by_rank);
    const Held* other = nullptr;
    std::vector<Box> boxes;
    for (; at != end; ++at) {
      boxes.push_back(at->piece.box);
      const bool same =
          at->piece.dtype == first.piece.dtype && at->piece.global == first.piece.global;
      if (!same && (other == nullptr || by_rank(*at, *other))) other = &*at;
    }
    if (other != nullptr) return differs(first.piece, first.lowest, other->piece, other->lowest);
    if (auto filled = check_filled(first.piece.global, std::move(boxes)); !filled)
      return Status{
          Code::ConstraintViolation,
          fmt::format("tensor {} {}.", quoted_name(first.piece.name), filled.error().message),
          first.piece.name};
  }
  return std::nullopt;
}

}  // namespace lockstep::worker
