// libFuzzer target: whatever stands in a checkpoint's index, also behind a right digest, or in the
// file of a rank, it is refused in one sentence, or it keeps the rules and reads back as itself.
// Built where the compiler is clang; scripts/fuzz-checkpoints runs it.

#include "../../support/fuzz_target.h"
#include <nlohmann/json.hpp>

#include <lockstep/worker/files/checkpoint/digest.h>
#include <lockstep/worker/files/checkpoint/index.h>

using namespace lockstep;
using namespace lockstep::worker;
using lockstep::fuzz::MemoryFile;
using lockstep::fuzz::require;

namespace {

void require_sentence(const Status& error) {
  require(error.code == Code::BadInput || error.code == Code::Version, "another code");
  require(!error.message.empty() && error.message.find('\n') == std::string::npos, "no sentence");
}

void check_tensor(const CheckpointIndex& index, const IndexedTensor& tensor) {
  require(index.find(tensor.name) == &tensor, "a tensor is not found by its name");
  require(stored_bytes(tensor.dtype, tensor.global).has_value(), "sizes out of range");
  std::uint64_t held = 0, all = 1;
  for (const std::int64_t size : tensor.global) all *= static_cast<std::uint64_t>(size);
  for (const IndexedPiece& piece : tensor.pieces) {
    require(piece.file >= 0 && piece.file < index.world_size, "a file that there is not");
    require(lies_within(piece.box, tensor.global), "a piece outside of its tensor");
    std::uint64_t count = 1;
    for (const std::int64_t size : piece.box.sizes) count *= static_cast<std::uint64_t>(size);
    held += count;
  }
  require(held == all, "pieces that do not fill their tensor");
}

void read_index_text(const std::string& text) {
  const auto index = index_in(text, "index.json");
  if (!index) return require_sentence(index.error());
  require(index->file_bytes.size() == static_cast<std::size_t>(index->world_size), "files");
  for (const IndexedTensor& tensor : index->tensors) check_tensor(*index, tensor);
  for (const IndexedValue& value : index->values) {
    require(index->find_value(value.name) == &value, "a value is not found by its name");
    const std::size_t ranks = value.per_rank ? index->file_bytes.size() : 1;
    require(value.texts.size() == ranks, "texts of a value");
  }
  const std::string again = index_text(*index);
  const auto same = index_in(again, "again");
  require(same.has_value(), "an index that cannot be read again");
  require(index_text(*same) == again, "another index");
}

/// The text as what stands behind a right digest.
void read_body(const std::string& text) {
  bool deep = false;
  const auto event = [&](int depth, nlohmann::ordered_json::parse_event_t,
                         nlohmann::ordered_json&) {
    deep = deep || depth > 16;
    return !deep;
  };
  const auto body = nlohmann::ordered_json::parse(text, event, false);
  if (deep || body.is_discarded()) return;
  const std::string dumped = body.dump();
  read_index_text("{\"format\":\"lockstep.checkpoint/1\",\"xxh3\":\"" +
                  digest_of(std::as_bytes(std::span(dumped))) + "\",\"checkpoint\":" + dumped +
                  "}\n");
}

void read_file(std::span<const std::byte> bytes) {
  static const MemoryFile memory;
  memory.fill(bytes);
  const auto file = read_rank_file(memory.path());
  if (!file) return require_sentence(file.error());
  for (const StoredPiece& stored : file->written)
    require(lies_within(stored.piece.box, stored.piece.global), "a piece outside of its tensor");
  // What it says may still not fit other ranks: then that is a sentence, too.
  if (const auto index = make_index({*file}); index) {
    for (const IndexedTensor& tensor : index->tensors) check_tensor(*index, tensor);
    read_index_text(index_text(*index));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_index_text(text);
  read_body(text);
  read_file(std::as_bytes(std::span(data, size)));
  return 0;
}
