// libFuzzer target: no file makes the reader crash, read beyond its end or take memory for lengths
// that are not there; what it takes is written again and read back as the same. The bytes are a
// whole file; with the first byte odd, the JSON of a header, before 64 bytes of data. Built where
// the compiler is clang; scripts/fuzz-safetensors runs it.
#include <cstring>

#include "../../support/fuzz_target.h"

#include <lockstep/worker/files/safetensors/file.h>

using namespace lockstep;
using namespace lockstep::worker;
using lockstep::fuzz::MemoryFile;
using lockstep::fuzz::require;

namespace {

void check_reads(SafetensorsFile& file) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    const auto array = file.read(tensor.name);
    require(array && array->bytes() == tensor.bytes, "a tensor cannot be read");
    bytes += tensor.bytes;
    if (tensor.sizes.empty()) continue;
    const std::int64_t rows = tensor.sizes[0];
    require(static_cast<bool>(file.read_rows(tensor.name, rows / 2, rows - rows / 2)), "no rows");
    require(!file.read_rows(tensor.name, rows, 1), "rows beyond the end");
  }
  require(bytes == file.header().data_bytes, "bytes of no tensor");
}

void check_written_again(const SafetensorsHeader& header) {
  const auto laid_out = lay_out(header.tensors, header.metadata, "again");
  if (!laid_out) return;  // the JSON of a header that was nearly too long
  const std::string bytes = header_bytes(*laid_out);
  const auto back =
      parse_header(std::string_view(bytes).substr(8), bytes.size() + laid_out->data_bytes, "again");
  require(back && back->tensors == laid_out->tensors && back->metadata == header.metadata,
          "it is read back as another");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  if (data[0] % 2 == 1) {
    std::vector<std::byte> whole(8);
    const std::uint64_t length = bytes.size();
    std::memcpy(whole.data(), &length, 8);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    whole.resize(whole.size() + 64);
    bytes = std::move(whole);
  }
  static const MemoryFile memory;
  memory.fill(bytes);
  auto file = SafetensorsFile::open(memory.path());
  if (!file) {
    require(file.error().code == Code::BadInput, "damage is no bad input");
    require(file.error().message.find('\n') == std::string::npos, "more than one line");
    return 0;
  }
  check_reads(*file);
  check_written_again(file->header());
  return 0;
}
