#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <lockstep/worker/files/checkpoint/digest.h>
#include <lockstep/worker/files/checkpoint/index.h>
#include <lockstep/worker/files/checkpoint/value_json.h>

namespace lockstep::worker {
namespace {

Status bad_index(const std::string& file, const std::string& what) {
  return bad_input(fmt::format("{}: {}.", file, what));
}

std::string digest_of_text(const std::string& text) {
  return digest_of(std::as_bytes(std::span(text)));
}

CheckedJson body_of(const CheckpointIndex& index) {
  CheckedJson body = {{"step", index.step},
                      {"world_size", index.world_size},
                      {"file_bytes", index.file_bytes},
                      {"values", CheckedJson::array()},
                      {"tensors", CheckedJson::array()}};
  for (const IndexedValue& value : index.values)
    body["values"].push_back({{"name", value.name},
                              {"kind", value_kind_name(value.kind)},
                              {"per_rank", value.per_rank},
                              {"values", value.texts}});
  for (const IndexedTensor& tensor : index.tensors) {
    CheckedJson pieces = CheckedJson::array();
    for (const IndexedPiece& piece : tensor.pieces)
      pieces.push_back({{"rank", piece.file},
                        {"start", piece.box.start},
                        {"shape", piece.box.sizes},
                        {"xxh3", piece.digest}});
    body["tensors"].push_back({{"name", tensor.name},
                               {"dtype", stored_dtype_name(tensor.dtype)},
                               {"global", tensor.global},
                               {"pieces", std::move(pieces)}});
  }
  return body;
}

IndexedTensor tensor_in(const CheckedJson& json, int world_size) {
  IndexedTensor out;
  out.name = json.at("name").get<std::string>();
  const auto dtype = stored_dtype(json.at("dtype").get<std::string>());
  if (!dtype) throw CheckedJson::type_error::create(302, "no dtype", nullptr);
  out.dtype = *dtype;
  out.global = wholes_in(json.at("global"));
  for (const CheckedJson& piece : json.at("pieces")) {
    const std::int64_t rank = whole_in(piece.at("rank"));
    if (rank >= world_size) throw CheckedJson::type_error::create(302, "no rank", nullptr);
    out.pieces.push_back({static_cast<int>(rank),
                          {wholes_in(piece.at("start")), wholes_in(piece.at("shape"))},
                          piece.at("xxh3").get<std::string>()});
  }
  return out;
}

/// Throws CheckedJson::exception if `body` is not an index.
CheckpointIndex index_of(const CheckedJson& body) {
  CheckpointIndex out;
  out.step = whole_in(body.at("step"));
  for (const std::int64_t bytes : wholes_in(body.at("file_bytes")))
    out.file_bytes.push_back(static_cast<std::uint64_t>(bytes));
  const std::int64_t world_size = whole_in(body.at("world_size"));
  if (world_size != static_cast<std::int64_t>(out.file_bytes.size()) || world_size == 0)
    throw CheckedJson::type_error::create(302, "no world size", nullptr);
  out.world_size = static_cast<int>(world_size);
  for (const CheckedJson& tensor : body.at("tensors"))
    out.tensors.push_back(tensor_in(tensor, out.world_size));
  for (const CheckedJson& json : body.at("values")) {
    IndexedValue value{json.at("name").get<std::string>(), value_kind_in(json.at("kind")),
                       json.at("per_rank").get<bool>(),
                       json.at("values").get<std::vector<std::string>>()};
    if (value.texts.size() != (value.per_rank ? out.file_bytes.size() : 1))
      throw CheckedJson::type_error::create(302, "no value", nullptr);
    out.values.push_back(std::move(value));
  }
  return out;
}

/// Checks what the digest cannot prove: anyone can compute a digest for any text.
Result<void> check_index(const CheckpointIndex& index, const std::string& file) {
  const auto ascending = [](const auto& all) {
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i].name <= all[i - 1].name) return false;
    return true;
  };
  if (!ascending(index.tensors) || !ascending(index.values))
    return bad_index(file, "its names are not in order");
  for (const IndexedTensor& tensor : index.tensors) {
    std::vector<Box> boxes;
    for (const IndexedPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    if (!stored_bytes(tensor.dtype, tensor.global))
      return bad_index(
          file, fmt::format("the sizes of tensor {} are out of range", quoted_name(tensor.name)));
    for (const Box& box : boxes)
      if (!lies_within(box, tensor.global))
        return bad_index(
            file, fmt::format("a piece of tensor {} lies outside of it", quoted_name(tensor.name)));
    if (auto filled = check_filled(tensor.global, std::move(boxes)); !filled)
      return bad_index(
          file, fmt::format("tensor {} {}", quoted_name(tensor.name), filled.error().message));
  }
  return {};
}

}  // namespace

std::string index_text(const CheckpointIndex& index) {
  const std::string body = body_of(index).dump();
  return fmt::format("{{\"format\":\"{}\",\"xxh3\":\"{}\",\"checkpoint\":{}}}\n", kCheckpointFormat,
                     digest_of_text(body), body);
}

Result<CheckpointIndex> index_in(std::string_view text, const std::string& file) {
  const auto json = checked_json(text);
  CheckpointIndex out;
  try {
    if (!json) return bad_index(file, "it is no index of a checkpoint, or damaged");
    if (json->at("format").get<std::string>() != kCheckpointFormat)
      return Status{Code::Version,
                    fmt::format("{}: it is of another version than {}; read it with the lockstep "
                                "that wrote it.",
                                file, kCheckpointFormat)};
    const CheckedJson& body = json->at("checkpoint");
    if (digest_of_text(body.dump()) != json->at("xxh3").get<std::string>())
      return bad_index(file, "it is damaged: its digest is another");
    out = index_of(body);
  } catch (const CheckedJson::exception&) {
    return bad_index(file, "it is no index of a checkpoint, or damaged");
  }
  if (auto sound = check_index(out, file); !sound) return sound.error();
  return out;
}

Result<CheckpointIndex> read_index(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kIndexName);
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR)
      return bad_index(path, "there is no such file, so the folder is no checkpoint");
    return file_error("open", path);
  }
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return file_error("look at", path);
  if (!S_ISREG(info.st_mode)) return bad_index(path, "it is no regular file");
  if (static_cast<std::uint64_t>(info.st_size) > kMostIndexBytes)
    return bad_index(
        path, fmt::format("it has {} bytes, at most {} are read", info.st_size, kMostIndexBytes));
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  if (auto read = read_at(file, 0, std::as_writable_bytes(std::span(text)), path); !read)
    return read.error();
  return index_in(text, path);
}

}  // namespace lockstep::worker
