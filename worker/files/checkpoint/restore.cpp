#include <algorithm>
#include <map>
#include <new>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/piece_reader.h>
#include <lockstep/worker/files/checkpoint/restore.h>

namespace lockstep::worker {
namespace {

/// The pieces and values that the ranks of this job need.
struct Wants {
  std::vector<std::vector<Piece>> pieces;  // by rank
  std::set<std::string> values;            // needed by any rank
};

Status refusal(const std::string& folder, const std::string& what, const std::string& name) {
  return bad_input(fmt::format("{}: {}.", folder, what), name);
}

/// Returns the folder of the checkpoint to load; "" if there is none.
Result<std::string> chosen(const std::string& folder, const RestoreOptions& options) {
  auto found = list_checkpoints(folder);
  if (!found && found.error().code == Code::BadInput && !options.step) return std::string();
  if (!found) return found.error();
  if (!options.step) return found->empty() ? std::string() : found->back().folder;
  for (const FoundCheckpoint& one : *found)
    if (one.step == *options.step) return one.folder;
  return refusal(folder, fmt::format("there is no checkpoint of step {}", *options.step), {});
}

/// Returns rank 0's choice, on all ranks.
Result<std::string> agree_on_folder(CheckpointRanks& ranks, const std::string& folder,
                                    const RestoreOptions& options) {
  Result<std::string> mine = std::string();
  if (ranks.rank().value == 0) mine = chosen(folder, options);
  std::optional<Status> failed;
  if (!mine) failed = mine.error();
  if (auto all = ranks.settle(failed); !all) return all.error();
  ByteWriter word;
  word.text(*mine);
  const auto told = ranks.all_gather(std::move(word).take());
  if (!told) return told.error();
  return ByteReader(told->front()).text();
}

Result<Piece> wanted(const StateTensor& leaf, const CheckpointIndex& index,
                     const std::string& folder) {
  const IndexedTensor* saved = index.find(leaf.name);
  const std::string shown = quoted_name(leaf.name);
  if (saved == nullptr)
    return refusal(folder,
                   fmt::format("the state has a tensor {}, which the checkpoint has not", shown),
                   leaf.name);
  Piece piece{leaf.name, saved->dtype, saved->global, Box::whole(saved->global)};
  if (leaf.tensor->traced())
    return refusal(folder, fmt::format("{} of the state is a tensor of a trace", shown), leaf.name);
  if (leaf.tensor->empty() && !leaf.global) return piece;
  if (leaf.tensor->empty())
    return refusal(folder,
                   fmt::format("{} of the state has no sizes, so its part is not known", shown),
                   leaf.name);
  const Array& array = leaf.tensor->array();
  piece.dtype = array.dtype(), piece.global = leaf.global.value_or(array.sizes());
  piece.box = {leaf.start.value_or(std::vector<std::int64_t>(array.sizes().size(), 0)),
               array.sizes()};
  if (piece.dtype != saved->dtype || piece.global != saved->global)
    return refusal(folder,
                   fmt::format("tensor {} is {} [{}] in the checkpoint and {} [{}] in the state",
                               shown, dtype_name(saved->dtype), fmt::join(saved->global, ", "),
                               dtype_name(piece.dtype), fmt::join(piece.global, ", ")),
                   leaf.name);
  if (!lies_within(piece.box, piece.global))
    return refusal(folder, fmt::format("tensor {} has no part {}", shown, box_text(piece.box)),
                   leaf.name);
  return piece;
}

Result<void> check_value(const SmallValue& value, const CheckpointIndex& index, int ranks,
                         const std::string& folder) {
  const IndexedValue* saved = index.find_value(value.name);
  const std::string shown = quoted_name(value.name);
  if (saved == nullptr)
    return refusal(folder,
                   fmt::format("the state has a value {}, which the checkpoint has not", shown),
                   value.name);
  if (saved->kind != value.kind || saved->per_rank != value.per_rank)
    return refusal(folder,
                   fmt::format("value {} is {} in the checkpoint and {} in the state", shown,
                               value_kind_name(saved->kind), value_kind_name(value.kind)),
                   value.name);
  if (saved->per_rank && static_cast<int>(saved->texts.size()) != ranks)
    return refusal(folder,
                   fmt::format("each of {} ranks has a value {} of its own, and this job has {} "
                               "ranks; load it with as many, or keep a value that all ranks share",
                               saved->texts.size(), shown, ranks),
                   value.name);
  return {};
}

/// Returns the pieces that this rank needs. An error if the checkpoint does not have them all.
Result<std::vector<Piece>> own_wants(const StateLeaves& leaves, const CheckpointIndex& index,
                                     int ranks, const std::string& folder) {
  if (auto named = leaves.check(); !named) return named.error();
  std::vector<Piece> out;
  for (const StateTensor& leaf : leaves.tensors()) {
    auto piece = wanted(leaf, index, folder);
    if (!piece) return piece.error();
    out.push_back(std::move(*piece));
  }
  for (const StateValue& leaf : leaves.values())
    if (auto fits = check_value(leaf.value, index, ranks, folder); !fits) return fits.error();
  return out;
}

Result<Wants> tell_wants(CheckpointRanks& ranks, const std::vector<Piece>& mine,
                         const StateLeaves& leaves) {
  ByteWriter word;
  const Bytes pieces = pieces_bytes(mine);
  word.text({reinterpret_cast<const char*>(pieces.data()), pieces.size()});
  word.u32(static_cast<std::uint32_t>(leaves.values().size()));
  for (const StateValue& leaf : leaves.values()) word.text(leaf.value.name);
  const auto told = ranks.all_gather(std::move(word).take());
  if (!told) return told.error();
  Wants out;
  for (const Bytes& bytes : *told) {
    ByteReader in(bytes);
    const std::string list = in.text();
    auto of_rank = pieces_in(std::as_bytes(std::span(list)));
    if (!of_rank) return of_rank.error();
    out.pieces.push_back(std::move(*of_rank));
    for (std::uint32_t left = in.count(4); left > 0; --left) out.values.insert(in.text());
  }
  return out;
}

/// Refuses tensors and values that no rank needs. Returns the same result on every rank.
Result<void> check_extra(const CheckpointIndex& index, const Wants& wants,
                         const std::string& folder) {
  std::set<std::string_view> names;
  for (const auto& of_rank : wants.pieces)
    for (const Piece& piece : of_rank) names.insert(piece.name);
  for (const IndexedTensor& tensor : index.tensors)
    if (!names.contains(tensor.name))
      return refusal(folder,
                     fmt::format("the checkpoint has a tensor {}, which no rank's state has",
                                 quoted_name(tensor.name)),
                     tensor.name);
  for (const IndexedValue& value : index.values)
    if (!wants.values.contains(value.name))
      return refusal(folder,
                     fmt::format("the checkpoint has a value {}, which no rank's state has",
                                 quoted_name(value.name)),
                     value.name);
  return {};
}

/// Returns the rank that compares the piece's digest: the one that needs the largest part of the
/// piece, the lowest among equals; -1 if no rank needs any part.
int verifier(const Box& piece, const std::vector<std::pair<int, const Box*>>& wanted_by) {
  int best = -1;
  std::int64_t most = 0;
  for (const auto& [rank, box] : wanted_by) {
    std::int64_t count = 1;
    for (const std::int64_t size : common_part(piece, *box).sizes) count *= size;
    if (count > most) most = count, best = rank;
  }
  return best;
}

class Loader {
 public:
  Loader(CheckpointRanks& ranks, std::string folder, const CheckpointIndex& index,
         const Wants& wants, bool verify)
      : self_(ranks.rank().value),
        index_(index),
        wants_(wants),
        verify_(verify),
        reader_(std::move(folder), index, [&ranks] { ranks.report_busy(); }) {}

  /// Returns one array per piece of this rank, in order.
  [[nodiscard]] Result<std::vector<Array>> load();
  [[nodiscard]] std::uint64_t bytes_read() const { return reader_.bytes_read(); }

 private:
  struct Read {
    int file;
    std::size_t piece;  // number among this rank's pieces
    const IndexedTensor* tensor;
    const IndexedPiece* source;
    bool verify;
  };
  [[nodiscard]] std::vector<Read> reads() const;
  int self_;
  const CheckpointIndex& index_;
  const Wants& wants_;
  bool verify_;
  PieceReader reader_;
};

std::vector<Loader::Read> Loader::reads() const {
  std::map<std::string_view, std::vector<std::pair<int, const Box*>>> by_name;
  for (std::size_t r = 0; r < wants_.pieces.size(); ++r)
    for (const Piece& piece : wants_.pieces[r])
      by_name[piece.name].emplace_back(static_cast<int>(r), &piece.box);
  std::vector<Read> out;
  const auto& mine = wants_.pieces[static_cast<std::size_t>(self_)];
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const IndexedTensor& tensor = *index_.find(mine[i].name);
    for (const IndexedPiece& piece : tensor.pieces)
      if (!is_empty(common_part(piece.box, mine[i].box)))
        out.push_back({piece.file, i, &tensor, &piece,
                       verify_ && verifier(piece.box, by_name.at(tensor.name)) == self_});
  }
  // A rank that loads the whole piece checks its digest: no extra read.
  for (Read& read : out)
    if (verify_ && common_part(read.source->box, mine[read.piece].box) == read.source->box)
      read.verify = true;
  std::stable_sort(out.begin(), out.end(),
                   [](const Read& a, const Read& b) { return a.file < b.file; });
  return out;
}

Result<std::vector<Array>> Loader::load() {
  std::vector<Array> out;
  const auto& mine = wants_.pieces[static_cast<std::size_t>(self_)];
  try {
    for (const Piece& piece : mine) out.emplace_back(piece.dtype, piece.box.sizes);
  } catch (const std::bad_alloc&) {
    return environment_error("there is no memory for the tensors of a checkpoint.");
  }
  for (const Read& read : reads()) {
    const PartMemory into{
        mine[read.piece].box,
        {static_cast<std::byte*>(out[read.piece].data()), out[read.piece].bytes()}};
    auto done = read.verify ? reader_.verify(*read.tensor, *read.source, &into)
                            : reader_.read(*read.tensor, *read.source, into);
    if (!done) return done.error();
  }
  return out;
}

/// Returns the setter of each value. Errors: a text that is not of the value's kind, or does not
/// fit the state's type.
Result<std::vector<ValueSetter>> read_values(const StateLeaves& leaves,
                                             const CheckpointIndex& index, int rank,
                                             const std::string& folder) {
  std::vector<ValueSetter> out;
  for (const StateValue& leaf : leaves.values()) {
    const IndexedValue& saved = *index.find_value(leaf.value.name);
    const std::string& text = saved.texts[saved.per_rank ? static_cast<std::size_t>(rank) : 0];
    out.push_back(leaf.read(text));
    if (!out.back())
      return refusal(folder,
                     fmt::format("value {} does not fit the state", quoted_name(saved.name)),
                     saved.name);
  }
  return out;
}

}  // namespace

Result<std::optional<Restored>> restore_checkpoint(CheckpointRanks& ranks,
                                                   const std::string& folder,
                                                   const StateLeaves& leaves,
                                                   const RestoreOptions& options) {
  const auto found = agree_on_folder(ranks, folder, options);
  if (!found) return found.error();
  if (found->empty()) return std::optional<Restored>();
  std::optional<Status> failed;
  const auto index = read_index(*found);
  Result<std::vector<Piece>> mine = std::vector<Piece>();
  if (index) mine = own_wants(leaves, *index, ranks.size(), *found);
  if (!index) failed = index.error();
  if (!mine) failed = mine.error();
  Result<std::vector<ValueSetter>> values = std::vector<ValueSetter>();
  if (!failed) values = read_values(leaves, *index, ranks.rank().value, *found);
  if (!values) failed = values.error();
  if (auto all = ranks.settle(failed); !all) return all.error();
  const auto wants = tell_wants(ranks, *mine, leaves);
  if (!wants) return wants.error();
  if (!options.allow_extra)
    if (auto fits = check_extra(*index, *wants, *found); !fits) return fits.error();
  Loader loader(ranks, *found, *index, *wants, options.verify);
  auto arrays = loader.load();
  if (!arrays) failed = arrays.error();
  if (auto all = ranks.settle(failed); !all) return all.error();
  for (const ValueSetter& set : *values) set();
  Restored out{index->step, index->world_size, 0, loader.bytes_read()};
  for (std::size_t i = 0; i < arrays->size(); ++i) {
    out.bytes_used += (*arrays)[i].bytes();
    *leaves.tensors()[i].tensor = Tensor(std::move((*arrays)[i]));
  }
  return std::optional<Restored>(out);
}

}  // namespace lockstep::worker
