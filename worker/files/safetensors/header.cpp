#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/files/safetensors/header.h>
#include <lockstep/worker/files/safetensors/header_reader.h>

namespace lockstep::worker {
namespace {

constexpr std::array<std::string_view, 10> kStoredNames{"BOOL", "U8",  "I8",   "I16", "I32",
                                                        "I64",  "F16", "BF16", "F32", "F64"};
constexpr std::size_t kShownName = 80;

Status bad(std::string_view file, const std::string& what) {
  return bad_input(fmt::format("{}: {}.", file, what));
}

/// Returns `text` as a JSON string.
std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string json_of(const SafetensorsHeader& header) {
  std::string out;
  std::string_view before = "{";
  if (!header.metadata.empty()) {
    out += "{\"__metadata__\":" + nlohmann::json(header.metadata).dump();
    before = ",";
  }
  for (const StoredTensor& tensor : header.tensors) {
    out += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", before,
                       json_text(tensor.name), stored_dtype_name(tensor.dtype),
                       fmt::join(tensor.sizes, ","), tensor.begin, tensor.begin + tensor.bytes);
    before = ",";
  }
  return out.empty() ? "{}" : out + "}";
}

/// Checks that the tensors' bytes follow each other from 0 to `data_bytes`.
Result<void> check_places(const SafetensorsHeader& header, std::string_view file) {
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin < end)
      return bad(file, fmt::format("the bytes of tensor {} overlap those of another",
                                   quoted_name(tensor.name)));
    if (tensor.begin > end)
      return bad(file, fmt::format("{} bytes before tensor {} belong to no tensor",
                                   tensor.begin - end, quoted_name(tensor.name)));
    end += tensor.bytes;
  }
  if (end != header.data_bytes)
    return bad(file,
               fmt::format("its tensors have {} bytes and the file has {} behind the header; it "
                           "was cut short or added to",
                           end, header.data_bytes));
  return {};
}

/// True if `text` is valid UTF-8.
bool is_text(const std::string& text) {
  try {
    return !json_text(text).empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

std::string_view stored_dtype_name(DType dtype) {
  return kStoredNames[static_cast<std::size_t>(dtype)];
}

std::optional<DType> stored_dtype(std::string_view name) {
  const auto at = std::find(kStoredNames.begin(), kStoredNames.end(), name);
  if (at == kStoredNames.end()) return std::nullopt;
  return static_cast<DType>(at - kStoredNames.begin());
}

std::optional<std::uint64_t> stored_bytes(DType dtype, const std::vector<std::int64_t>& sizes) {
  if (sizes.size() > kMostStoredDims) return std::nullopt;
  std::int64_t elements = 1, bytes = 0;
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(dtype_size(dtype)), &bytes))
    return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

Result<void> check_header_length(std::uint64_t length, std::uint64_t file_bytes,
                                 std::string_view file) {
  if (length > kMostHeaderBytes)
    return bad(file, fmt::format("it is no safetensors file, or damaged: its header would have {} "
                                 "bytes, at most {} are read",
                                 length, kMostHeaderBytes));
  if (file_bytes < 8 || length > file_bytes - 8)
    return bad(file, fmt::format("its header would have {} bytes, but the file has {}; it was cut "
                                 "short",
                                 length, file_bytes));
  if (length < 2) return bad(file, "it is no safetensors file: its header is empty");
  return {};
}

Result<SafetensorsHeader> parse_header(std::string_view text, std::uint64_t file_bytes,
                                       std::string_view file) {
  if (auto fits = check_header_length(text.size(), file_bytes, file); !fits) return fits.error();
  if (text.front() != '{')
    return bad(file, "it is no safetensors file: its header does not start with {");
  auto read = read_header_text(text, file);
  if (!read) return read;
  SafetensorsHeader header = std::move(*read);
  header.data_at = 8 + text.size();
  header.data_bytes = file_bytes - header.data_at;
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  if (auto placed = check_places(header, file); !placed) return placed.error();
  return header;
}

Result<SafetensorsHeader> lay_out(std::vector<StoredTensor> tensors,
                                  std::map<std::string, std::string> metadata,
                                  std::string_view file) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const std::size_t at = dtype_size(a.dtype), bt = dtype_size(b.dtype);
    return at != bt ? at > bt : a.name < b.name;
  });
  std::set<std::string_view> names;
  std::uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    const std::string shown = quoted_name(tensor.name);
    if (tensor.name.empty() || tensor.name == "__metadata__" || !is_text(tensor.name))
      return bad(file, fmt::format("no tensor can have the name {}", shown));
    if (!names.insert(tensor.name).second)
      return bad(file, fmt::format("there are two tensors with the name {}", shown));
    const auto bytes = stored_bytes(tensor.dtype, tensor.sizes);
    if (!bytes || *bytes > static_cast<std::uint64_t>(INT64_MAX) - end)
      return bad(file, fmt::format("the sizes of tensor {} are out of range", shown));
    tensor.begin = end, tensor.bytes = *bytes;
    end += *bytes;
  }
  for (const auto& [key, value] : metadata)
    if (!is_text(key) || !is_text(value))
      return bad(file, fmt::format("the metadata {} is not UTF-8", quoted_name(key)));
  SafetensorsHeader header{std::move(tensors), std::move(metadata), 0, end};
  header.data_at = header_bytes(header).size();
  if (header.data_at - 8 > kMostHeaderBytes)
    return bad(file, fmt::format("its header would have {} bytes, at most {} can be read",
                                 header.data_at - 8, kMostHeaderBytes));
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  std::string text = json_of(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (int i = 0; i < 8; ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xff);
  return out + text;
}

std::string quoted_name(std::string_view name) {
  std::string out = "\"";
  for (const char c : name.substr(0, kShownName)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return out + (name.size() > kShownName ? "...\"" : "\"");
}

}  // namespace lockstep::worker
