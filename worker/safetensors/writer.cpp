#include <cstdio>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/safetensors/writer.h>

namespace lockstep::worker {

SafetensorsWriter::SafetensorsWriter(std::string path, SafetensorsHeader header)
    : path_(std::move(path)),
      temporary_(fmt::format("{}.tmp-{}", path_, ::getpid())),
      header_(std::move(header)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      header_(std::move(other.header_)),
      appended_(other.appended_),
      synced_(other.synced_) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_.is_open() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<StoredTensor> tensors,
                                                    std::map<std::string, std::string> metadata) {
  auto header = lay_out(std::move(tensors), std::move(metadata), path);
  if (!header) return header.error();
  SafetensorsWriter out(path, std::move(*header));
  ::unlink(out.temporary_.c_str());  // of an earlier process with this number
  out.file_ = OpenFile(
      ::open(out.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!out.file_.is_open()) return file_error("create", out.temporary_);
  const std::string front = header_bytes(out.header_);
  if (auto put = write_whole(out.file_, std::as_bytes(std::span(front)), path); !put)
    return put.error();
  return out;
}

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > header_.data_bytes - appended_)
    return Status{
        Code::Internal, fmt::format("{}: more bytes than its header names", path_), {}, {}};
  appended_ += bytes.size();
  return write_whole(file_, bytes, path_);
}

Result<void> SafetensorsWriter::sync() {
  if (appended_ != header_.data_bytes)
    return Status{
        Code::Internal, fmt::format("{}: fewer bytes than its header names", path_), {}, {}};
  if (::fsync(file_.fd()) != 0) return file_error("flush", path_);
  synced_ = true;
  return {};
}

Result<void> SafetensorsWriter::publish() {
  if (!synced_)
    return Status{Code::Internal, fmt::format("{}: named before it is on disk", path_), {}, {}};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return file_error("name", path_);
  temporary_.clear();
  return sync_folder(folder_of(path_));
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
