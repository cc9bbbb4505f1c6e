#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/files/checkpoint/checked_json.h>
#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/merge.h>
#include <lockstep/worker/files/checkpoint/piece_reader.h>
#include <lockstep/worker/files/checkpoint/slab.h>
#include <lockstep/worker/files/safetensors/writer.h>

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

using Shard = std::vector<const IndexedTensor*>;

std::uint64_t bytes_of(const IndexedTensor& tensor) {
  return stored_bytes(tensor.dtype, tensor.global).value_or(0);
}

/// Returns the tensors in order of their names, split where a file would become too large.
std::vector<Shard> shards_of(const CheckpointIndex& index, const MergeOptions& options) {
  std::vector<Shard> out;
  std::uint64_t bytes = 0;
  for (const IndexedTensor& tensor : index.tensors) {
    if (!tensor.name.starts_with(options.prefix) || tensor.name == options.prefix) continue;
    if (out.empty() || bytes + bytes_of(tensor) > options.most_bytes) out.emplace_back(), bytes = 0;
    out.back().push_back(&tensor);
    bytes += bytes_of(tensor);
  }
  return out;
}

std::string shard_name(std::size_t i, std::size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
}

Result<void> append_tensor(SafetensorsWriter& writer, PieceReader& reader,
                           const IndexedTensor& tensor) {
  std::vector<std::byte> buffer;
  const std::size_t element = dtype_size(tensor.dtype);
  return each_slab(Box::whole(tensor.global), element, kSlabBytes,
                   [&](const Box& slab, std::uint64_t) -> Result<void> {
                     std::uint64_t bytes = element;
                     for (const std::int64_t size : slab.sizes)
                       bytes *= static_cast<std::uint64_t>(size);
                     buffer.resize(static_cast<std::size_t>(bytes));
                     for (const IndexedPiece& piece : tensor.pieces) {
                       if (is_empty(common_part(piece.box, slab))) continue;
                       if (auto read = reader.read(tensor, piece, {slab, buffer}); !read)
                         return read;
                     }
                     return writer.append(buffer);
                   });
}

Result<void> write_shard(const std::string& path, const Shard& shard, PieceReader& reader,
                         std::size_t prefix) {
  std::vector<StoredTensor> entries;
  std::map<std::string, const IndexedTensor*> by_name;
  for (const IndexedTensor* tensor : shard) {
    const std::string name = tensor->name.substr(prefix);
    entries.push_back({name, tensor->dtype, tensor->global});
    by_name.emplace(name, tensor);
  }
  // Tools expect this entry, which says that tensors are laid out as in PyTorch.
  auto writer = SafetensorsWriter::create(path, std::move(entries), {{"format", "pt"}});
  if (!writer) return writer.error();
  for (const StoredTensor& tensor : writer->tensors())
    if (auto put = append_tensor(*writer, reader, *by_name.at(tensor.name)); !put) return put;
  if (auto synced = writer->sync(); !synced) return synced;
  return writer->publish();
}

Result<void> write_weight_map(const std::string& path, const std::vector<Shard>& shards,
                              const Merged& merged, std::size_t prefix) {
  CheckedJson map = CheckedJson::object();
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const IndexedTensor* tensor : shards[i])
      map[tensor->name.substr(prefix)] = merged.files[i];
  const std::string text =
      CheckedJson{{"metadata", {{"total_size", merged.bytes}}}, {"weight_map", std::move(map)}}
          .dump(2) +
      "\n";
  if (const auto fault = write_whole_file(path, text)) return file_error(*fault, path);
  return {};
}

Result<void> compare_digests(const CheckpointIndex& index, PieceReader& reader) {
  struct Place {
    const IndexedTensor* tensor;
    const IndexedPiece* piece;
  };
  std::vector<Place> all;
  for (const IndexedTensor& tensor : index.tensors)
    for (const IndexedPiece& piece : tensor.pieces) all.push_back({&tensor, &piece});
  std::stable_sort(all.begin(), all.end(),
                   [](const Place& a, const Place& b) { return a.piece->file < b.piece->file; });
  for (const auto& [tensor, piece] : all)
    if (auto same = reader.verify(*tensor, *piece); !same) return same;
  return {};
}

/// A folder that its destructor removes, unless keep() was called.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {}
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

Result<Merged> write_merged(const std::string& folder, const CheckpointIndex& index,
                            PieceReader& reader, const MergeOptions& options,
                            const std::string& into) {
  const std::vector<Shard> shards = shards_of(index, options);
  if (shards.empty())
    return bad_input(fmt::format("{}: it has no tensor whose name begins with {}.", folder,
                                 quoted_name(options.prefix)));
  Merged out;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    out.files.push_back(shard_name(i, shards.size()));
    const std::string path = fmt::format("{}/{}", into, out.files.back());
    if (auto put = write_shard(path, shards[i], reader, options.prefix.size()); !put)
      return put.error();
    for (const IndexedTensor* tensor : shards[i]) ++out.tensors, out.bytes += bytes_of(*tensor);
  }
  if (shards.size() == 1) return out;
  const std::string path = into + "/model.safetensors.index.json";
  if (auto put = write_weight_map(path, shards, out, options.prefix.size()); !put)
    return put.error();
  return out;
}

}  // namespace

Result<std::uint64_t> verify_checkpoint(const std::string& folder) {
  const auto index = read_index(folder);
  if (!index) return index.error();
  PieceReader reader(folder, *index);
  // Also checks files without pieces, which compare_digests() does not open.
  for (int rank = 0; rank < index->world_size; ++rank) {
    const auto file = read_rank_file(fmt::format("{}/{}", folder, rank_file_name(rank)));
    if (!file) return file.error();
    if (file->name.step != index->step || file->name.rank != rank)
      return bad_input(fmt::format("{}/{}: it is the file of another rank or step.", folder,
                                   rank_file_name(rank)));
  }
  if (auto same = compare_digests(*index, reader); !same) return same.error();
  return reader.bytes_read();
}

Result<Merged> merge_checkpoint(const std::string& folder, const MergeOptions& options) {
  const auto index = read_index(folder);
  if (!index) return index.error();
  if (fs::exists(options.output))
    return bad_input(
        fmt::format("{}: it is there already; name another folder, or remove it.", options.output));
  PieceReader reader(folder, *index);
  if (auto same = compare_digests(*index, reader); !same) return same.error();
  const std::string parent = folder_of(options.output);
  if (auto made = make_folder(parent); !made) return made.error();
  NewFolder into(fmt::format("{}.tmp-{}", options.output, ::getpid()));
  if (auto made = make_folder(into.path()); !made) return made.error();
  auto merged = write_merged(folder, *index, reader, options, into.path());
  if (!merged) return merged;
  if (auto synced = sync_folder(into.path()); !synced) return synced.error();
  if (::rename(into.path().c_str(), options.output.c_str()) != 0)
    return file_error("name", options.output);
  into.keep();
  if (auto synced = sync_folder(parent); !synced) return synced.error();
  return merged;
}

}  // namespace lockstep::worker
