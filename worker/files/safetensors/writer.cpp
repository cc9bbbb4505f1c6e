#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/files/safetensors/writer.h>

namespace lockstep::worker {

SafetensorsWriter::SafetensorsWriter(std::string path, SafetensorsHeader header)
    : path_(std::move(path)), draft_(path_), header_(std::move(header)) {}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<StoredTensor> tensors,
                                                    std::map<std::string, std::string> metadata) {
  auto header = lay_out(std::move(tensors), std::move(metadata), path);
  if (!header) return header.error();
  SafetensorsWriter out(path, std::move(*header));
  if (const auto& fault = out.draft_.fault()) return file_error(*fault, out.draft_.path());
  if (!out.draft_.write(header_bytes(out.header_))) return file_error(*out.draft_.fault(), path);
  return out;
}

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > header_.data_bytes - appended_)
    return internal_error(fmt::format("{}: more bytes than its header names", path_));
  appended_ += bytes.size();
  if (!draft_.write(bytes)) return file_error(*draft_.fault(), path_);
  return {};
}

Result<void> SafetensorsWriter::sync() {
  if (appended_ != header_.data_bytes)
    return internal_error(fmt::format("{}: fewer bytes than its header names", path_));
  if (!draft_.flush()) return file_error(*draft_.fault(), path_);
  synced_ = true;
  return {};
}

Result<void> SafetensorsWriter::publish() {
  if (!synced_) return internal_error(fmt::format("{}: named before it is on disk", path_));
  if (!draft_.name() || !draft_.flush_folder()) return file_error(*draft_.fault(), path_);
  return {};
}

Result<void> write_safetensors(const std::string& path, const std::vector<NamedArray>& tensors,
                               std::map<std::string, std::string> metadata) {
  std::vector<StoredTensor> entries;
  std::map<std::string_view, const Array*> by_name;
  for (const NamedArray& tensor : tensors) {
    entries.push_back({tensor.name, tensor.array.dtype(), tensor.array.sizes()});
    by_name.emplace(tensor.name, &tensor.array);
  }
  auto writer = SafetensorsWriter::create(path, std::move(entries), std::move(metadata));
  if (!writer) return writer.error();
  for (const StoredTensor& tensor : writer->tensors()) {
    const Array& array = *by_name.at(tensor.name);
    const std::span bytes(static_cast<const std::byte*>(array.data()), array.bytes());
    if (auto put = writer->append(bytes); !put) return put;
  }
  if (auto synced = writer->sync(); !synced) return synced;
  return writer->publish();
}

}  // namespace lockstep::worker
