#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <lockstep/worker/files/safetensors/file.h>

namespace lockstep::worker {
namespace {

std::uint64_t little_endian(std::span<const std::byte, 8> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

Status bad_read(const std::string& file, const std::string& what) {
  return bad_input(fmt::format("{}: {}.", file, what));
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile out;
  out.path_ = path;
  // Does not wait for a writer if `path` is a pipe.
  out.file_ = OpenFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!out.file_.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return bad_read(path, "there is no such file");
    return file_error("open", path);
  }
  struct stat info {};
  if (::fstat(out.file_.fd(), &info) != 0) return file_error("look at", path);
  if (!S_ISREG(info.st_mode)) return bad_read(path, "it is no regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < 8) return bad_read(path, fmt::format("it has {} bytes, too few for a header", size));
  std::array<std::byte, 8> start{};
  if (auto read = read_at(out.file_, 0, start, path); !read) return read.error();
  const std::uint64_t length = little_endian(start);
  if (auto fits = check_header_length(length, size, path); !fits) return fits.error();
  std::string text(static_cast<std::size_t>(length), '\0');
  if (auto read = read_at(out.file_, 8, std::as_writable_bytes(std::span(text)), path); !read)
    return read.error();
  auto header = parse_header(text, size, path);
  if (!header) return header.error();
  out.header_ = std::move(*header);
  for (std::size_t i = 0; i < out.header_.tensors.size(); ++i)
    out.places_.emplace(out.header_.tensors[i].name, i);
  return out;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &header_.tensors[found->second];
}

Result<const StoredTensor*> SafetensorsFile::named(std::string_view name) const {
  if (const StoredTensor* found = find(name)) return found;
  return bad_read(path_, fmt::format("there is no tensor {} in it", quoted_name(name)));
}

Result<Array> SafetensorsFile::read(std::string_view name) {
  const auto tensor = named(name);
  if (!tensor) return tensor.error();
  return read_part(name, Box::whole((*tensor)->sizes));
}

Result<Array> SafetensorsFile::read_rows(std::string_view name, std::int64_t first,
                                         std::int64_t count) {
  const auto tensor = named(name);
  if (!tensor) return tensor.error();
  if ((*tensor)->sizes.empty())
    return bad_read(path_, fmt::format("tensor {} has no rows", quoted_name(name)));
  Box part = Box::whole((*tensor)->sizes);
  part.start[0] = first, part.sizes[0] = count;
  return read_part(name, part);
}

Result<Array> SafetensorsFile::read_part(std::string_view name, const Box& part) {
  const auto tensor = named(name);
  if (!tensor) return tensor.error();
  if (!lies_within(part, (*tensor)->sizes))
    return bad_read(
        path_, fmt::format("{} is no part of tensor {}, which has the sizes [{}]", box_text(part),
                           quoted_name(name), fmt::join((*tensor)->sizes, ", ")));
  const std::size_t element = dtype_size((*tensor)->dtype);
  Array out((*tensor)->dtype, part.sizes);
  const std::span<std::byte> bytes(static_cast<std::byte*>(out.data()), out.bytes());
  const auto read_run = [&](const Run& run) {
    return read_bytes(**tensor, run.from, bytes.subspan(run.to, run.bytes));
  };
  if (auto done = each_run(part, Box::whole((*tensor)->sizes), part, element, read_run); !done)
    return done.error();
  return out;
}

Result<void> SafetensorsFile::read_bytes(const StoredTensor& tensor, std::uint64_t offset,
                                         std::span<std::byte> into) {
  if (offset > tensor.bytes || into.size() > tensor.bytes - offset)
    return bad_read(path_,
                    fmt::format("tensor {} has {} bytes; {} from {} on were asked for",
                                quoted_name(tensor.name), tensor.bytes, into.size(), offset));
  bytes_read_ += into.size();
  return read_at(file_, header_.data_at + tensor.begin + offset, into, path_);
}

bool lies_within(const Box& part, const std::vector<std::int64_t>& sizes) {
  if (part.start.size() != sizes.size() || part.sizes.size() != sizes.size()) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (part.start[d] < 0 || part.sizes[d] < 0 || part.start[d] > sizes[d] ||
        part.sizes[d] > sizes[d] - part.start[d])
      return false;
  return true;
}

std::string box_text(const Box& box) {
  std::string out;
  for (std::size_t d = 0; d < box.start.size() && d < box.sizes.size(); ++d)
    out += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.start[d], box.start[d] + box.sizes[d]);
  return "[" + out + "]";
}

}  // namespace lockstep::worker
