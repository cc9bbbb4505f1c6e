#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/index.h>

namespace lockstep::worker {
namespace {

Status differing(const std::string& what, const std::string& name, std::vector<RankValue> groups) {
  return {Code::ConstraintViolation, what, name, std::move(groups)};
}

/// Adds `rank` to the group of its text; groups are in order of their lowest rank.
void add_to_groups(std::vector<RankValue>& groups, Rank rank, const std::string& text) {
  for (RankValue& group : groups)
    if (group.value == text) return group.ranks.insert(rank);
  groups.push_back({RankSet::of(rank), text});
}

Result<void> check_names(const std::vector<RankFile>& files) {
  for (std::size_t r = 0; r < files.size(); ++r) {
    const SaveName& first = files.front().name;
    const SaveName expected{first.save, first.step, static_cast<int>(r),
                            static_cast<int>(files.size())};
    if (files[r].name != expected)
      return environment_error(
          fmt::format("{} is of another save than {}: all ranks must write to one folder, "
                      "and one job alone.",
                      rank_file_name(static_cast<int>(r)), rank_file_name(0)));
  }
  return {};
}

Result<void> add_tensors(const std::vector<RankFile>& files, CheckpointIndex& index) {
  std::map<std::string, IndexedTensor> tensors;
  for (std::size_t r = 0; r < files.size(); ++r)
    for (const StoredPiece& stored : files[r].written) {
      const Piece& piece = stored.piece;
      IndexedTensor& tensor = tensors[piece.name];
      if (tensor.pieces.empty())
        tensor.name = piece.name, tensor.dtype = piece.dtype, tensor.global = piece.global;
      if (tensor.dtype != piece.dtype || tensor.global != piece.global)
        return differing(fmt::format("tensor {} has other sizes or another dtype in {} than in the "
                                     "files before it.",
                                     quoted_name(piece.name), rank_file_name(static_cast<int>(r))),
                         piece.name, {});
      tensor.pieces.push_back({static_cast<int>(r), piece.box, stored.digest});
    }
  for (auto& [name, tensor] : tensors) {
    std::vector<Box> boxes;
    for (const IndexedPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    if (auto filled = check_filled(tensor.global, std::move(boxes)); !filled)
      return differing(fmt::format("tensor {} {}.", quoted_name(name), filled.error().message),
                       name, {});
    index.tensors.push_back(std::move(tensor));
  }
  return {};
}

/// Checks that each tensor saved in one piece is equal on all ranks that have it.
Result<void> check_replicas(const std::vector<RankFile>& files, const CheckpointIndex& index) {
  std::map<std::string, std::vector<RankValue>> digests;
  for (std::size_t r = 0; r < files.size(); ++r)
    for (const auto& [name, digest] : files[r].replicas) {
      const IndexedTensor* tensor = index.find(name);
      if (tensor == nullptr || tensor->pieces.size() != 1) continue;
      auto& groups = digests[name];
      if (groups.empty())
        groups.push_back({RankSet::of(Rank{tensor->pieces[0].file}), tensor->pieces[0].digest});
      add_to_groups(groups, Rank{static_cast<std::int32_t>(r)}, digest);
    }
  for (auto& [name, groups] : digests)
    if (groups.size() > 1)
      return differing(fmt::format("tensor {} is to be the same on all ranks that have it, and is "
                                   "not; if each rank has a part of it, say which (sharded).",
                                   quoted_name(name)),
                       name, std::move(groups));
  return {};
}

Result<void> add_values(const std::vector<RankFile>& files, CheckpointIndex& index) {
  struct Collected {
    IndexedValue value;
    std::vector<RankValue> groups;
    std::size_t ranks = 0;
  };
  std::map<std::string, Collected> all;
  for (std::size_t r = 0; r < files.size(); ++r)
    for (const SmallValue& value : files[r].values) {
      Collected& one = all[value.name];
      if (one.ranks++ == 0) one.value = {value.name, value.kind, value.per_rank, {}};
      if (one.value.kind != value.kind || one.value.per_rank != value.per_rank)
        return differing(fmt::format("the value {} is of another kind on rank {} than below.",
                                     quoted_name(value.name), r),
                         value.name, {});
      if (value.per_rank)
        one.value.texts.push_back(value.text);
      else
        add_to_groups(one.groups, Rank{static_cast<std::int32_t>(r)}, value.text);
    }
  for (auto& [name, one] : all) {
    if (one.ranks != files.size())
      return differing(fmt::format("the value {} is there on {} of {} ranks.", quoted_name(name),
                                   one.ranks, files.size()),
                       name, {});
    if (one.groups.size() > 1)
      return differing(fmt::format("the value {} is to be the same on all ranks, and is not; if "
                                   "each rank has its own, say so (PerRank).",
                                   quoted_name(name)),
                       name, std::move(one.groups));
    if (!one.value.per_rank) one.value.texts = {one.groups[0].value};
    index.values.push_back(std::move(one.value));
  }
  return {};
}

template <class T>
const T* found_by_name(const std::vector<T>& sorted, std::string_view name) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), name,
                                   [](const T& one, std::string_view n) { return one.name < n; });
  return at == sorted.end() || at->name != name ? nullptr : &*at;
}

}  // namespace

const IndexedTensor* CheckpointIndex::find(std::string_view name) const {
  return found_by_name(tensors, name);
}
const IndexedValue* CheckpointIndex::find_value(std::string_view name) const {
  return found_by_name(values, name);
}

Result<CheckpointIndex> make_index(const std::vector<RankFile>& files) {
  if (auto same = check_names(files); !same) return same.error();
  CheckpointIndex index;
  index.step = files.front().name.step;
  index.world_size = static_cast<int>(files.size());
  for (const RankFile& file : files) index.file_bytes.push_back(file.bytes);
  if (auto added = add_tensors(files, index); !added) return added.error();
  if (auto same = check_replicas(files, index); !same) return same.error();
  if (auto added = add_values(files, index); !added) return added.error();
  return index;
}

}  // namespace lockstep::worker
