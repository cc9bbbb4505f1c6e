#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/checked_json.h>
#include <lockstep/worker/files/checkpoint/digest.h>
#include <lockstep/worker/files/checkpoint/rank_file.h>
#include <lockstep/worker/files/checkpoint/value_json.h>
#include <lockstep/worker/files/safetensors/writer.h>

namespace lockstep::worker {
namespace {

constexpr const char* kAbout = "lockstep";

Status damaged(const std::string& path, const std::string& what) {
  return bad_input(fmt::format("{}: {}.", path, what));
}

std::map<std::string, std::string> metadata_of(const RankFileContent& content) {
  std::map<std::string, std::string> out;
  CheckedJson about = {{"format", kCheckpointFormat},
                       {"save", content.name.save},
                       {"step", content.name.step},
                       {"rank", content.name.rank},
                       {"world_size", content.name.world_size},
                       {"values", CheckedJson::array()}};
  for (const SmallValue& value : content.values) about["values"].push_back(json_of(value));
  out[kAbout] = about.dump();
  for (const auto& [piece, bytes] : content.written) {
    out[piece.name + ".global"] = CheckedJson(piece.global).dump();
    out[piece.name + ".start"] = CheckedJson(piece.box.start).dump();
    out[piece.name + ".xxh3"] = digest_of(bytes);
  }
  for (const auto& [piece, bytes] : content.replicas)
    out[piece.name + ".replica"] = digest_of(bytes);
  return out;
}

Result<void> append(SafetensorsWriter& writer, const RankFileContent& content,
                    const StageObserver& at) {
  std::map<std::string_view, std::span<const std::byte>> by_name;
  std::uint64_t total = 0, put = 0;
  for (const auto& [piece, bytes] : content.written)
    by_name.emplace(piece.name, bytes), total += bytes.size();
  bool told = false;
  for (const StoredTensor& tensor : writer.tensors()) {
    std::span<const std::byte> rest = by_name.at(tensor.name);
    if (!told && put + rest.size() >= total / 2) {
      const std::size_t first = total / 2 - put;
      if (auto done = writer.append(rest.first(first)); !done) return done;
      rest = rest.subspan(first), put += first;
      told = true;
      at(CheckpointStage::FileHalfWritten);
    }
    if (auto done = writer.append(rest); !done) return done;
    put += rest.size();
  }
  if (!told) at(CheckpointStage::FileHalfWritten);
  return {};
}

Result<SaveName> name_in(const CheckedJson& about, const std::string& path) {
  SaveName name;
  try {
    if (about.at("format").get<std::string>() != kCheckpointFormat)
      return Status{Code::Version,
                    fmt::format("{}: it is of another version than {}; read it with the lockstep "
                                "that wrote it.",
                                path, kCheckpointFormat)};
    name.save = about.at("save").get<std::string>();
    name.step = whole_in(about.at("step")),
    name.rank = static_cast<int>(whole_in(about.at("rank")));
    name.world_size = static_cast<int>(whole_in(about.at("world_size")));
  } catch (const CheckedJson::exception&) {
    return damaged(path, "it is no file of a checkpoint, or damaged");
  }
  return name;
}

/// Reads the metadata entry `key` as a list of sizes.
Result<std::vector<std::int64_t>> sizes_in(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.header().metadata.find(key);
  const auto json =
      found == file.header().metadata.end() ? std::nullopt : checked_json(found->second);
  try {
    if (json) return wholes_in(*json);
  } catch (const CheckedJson::exception&) {
  }
  return damaged(file.path(),
                 fmt::format("its metadata {} is missing or damaged", quoted_name(key)));
}

Result<StoredPiece> piece_in(const SafetensorsFile& file, const StoredTensor& tensor) {
  const auto global = sizes_in(file, tensor.name + ".global");
  if (!global) return global.error();
  const auto start = sizes_in(file, tensor.name + ".start");
  if (!start) return start.error();
  StoredPiece out{{tensor.name, tensor.dtype, *global, {*start, tensor.sizes}}, {}};
  const auto digest = file.header().metadata.find(tensor.name + ".xxh3");
  if (digest == file.header().metadata.end())
    return damaged(file.path(), fmt::format("tensor {} has no digest", quoted_name(tensor.name)));
  out.digest = digest->second;
  if (!stored_bytes(tensor.dtype, out.piece.global) ||
      !lies_within(out.piece.box, out.piece.global))
    return damaged(file.path(), fmt::format("tensor {} lies outside of its global sizes",
                                            quoted_name(tensor.name)));
  return out;
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

Result<void> write_rank_file(const std::string& path, const RankFileContent& content,
                             const StageObserver& at) {
  std::vector<StoredTensor> tensors;
  for (const auto& [piece, bytes] : content.written)
    tensors.push_back({piece.name, piece.dtype, piece.box.sizes});
  auto writer = SafetensorsWriter::create(path, std::move(tensors), metadata_of(content));
  if (!writer) return writer.error();
  at(CheckpointStage::FileBegun);
  if (auto done = append(*writer, content, at); !done) return done;
  at(CheckpointStage::FileWritten);
  if (auto done = writer->sync(); !done) return done;
  at(CheckpointStage::FileSynced);
  if (auto done = writer->publish(); !done) return done;
  at(CheckpointStage::FileNamed);
  return {};
}

Result<RankFile> read_rank_file(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  const auto& metadata = file->header().metadata;
  const auto found = metadata.find(kAbout);
  const auto about = found == metadata.end() ? std::nullopt : checked_json(found->second);
  if (!about) return damaged(path, "it is no file of a checkpoint, or damaged");
  const auto name = name_in(*about, path);
  if (!name) return name.error();
  RankFile out{*name, file->header().data_at + file->header().data_bytes, {}, {}, {}};
  try {
    for (const CheckedJson& value : about->at("values")) out.values.push_back(value_in(value));
  } catch (const CheckedJson::exception&) {
    return damaged(path, "its values are damaged");
  }
  for (const StoredTensor& tensor : file->tensors()) {
    auto piece = piece_in(*file, tensor);
    if (!piece) return piece.error();
    out.written.push_back(std::move(*piece));
  }
  constexpr std::string_view kReplica = ".replica";
  for (const auto& [key, digest] : metadata)
    if (key.ends_with(kReplica))
      out.replicas.emplace(key.substr(0, key.size() - kReplica.size()), digest);
  return out;
}

}  // namespace lockstep::worker
