// Writes safetensors files: the header, then each tensor's bytes in the order of the header. The
// file gets its name only when it is complete and on disk.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/files/safetensors/descriptor.h>
#include <lockstep/worker/files/safetensors/header.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// A draft of one file (collectives/base/whole_file.h). Single-threaded. Errors of all steps:
/// Environment.
class SafetensorsWriter {
 public:
  /// Writes the header. Uses only name, dtype and sizes of each tensor (lay_out). Errors: BadInput,
  /// as lay_out; Environment.
  [[nodiscard]] static Result<SafetensorsWriter> create(
      const std::string& path, std::vector<StoredTensor> tensors,
      std::map<std::string, std::string> metadata = {});

  /// Tensors in the order in which append() takes their bytes.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  /// Appends the next bytes of the data, of any length. Errors: Internal (too many bytes).
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// Flushes the file to disk. Errors: Internal (bytes are missing).
  [[nodiscard]] Result<void> sync();
  /// Gives the file its name, replacing an earlier file, and writes the name to disk. Errors:
  /// Internal if sync() has not succeeded.
  [[nodiscard]] Result<void> publish();

 private:
  SafetensorsWriter(std::string path, SafetensorsHeader header);
  std::string path_;
  DraftFile draft_;
  SafetensorsHeader header_;
  std::uint64_t appended_ = 0;
  bool synced_ = false;
};

/// A tensor with its name.
struct NamedArray {
  std::string name;
  Array array;
};
/// Writes a whole file: create, append, sync, publish.
[[nodiscard]] Result<void> write_safetensors(const std::string& path,
                                             const std::vector<NamedArray>& tensors,
                                             std::map<std::string, std::string> metadata = {});

}  // namespace lockstep::worker
