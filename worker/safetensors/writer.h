// Writes safetensors files: header first, then each tensor's bytes in the order of the header, as
// they come. The file has its name only once it is complete and on disk.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/graph/array.h>
#include <lockstep/worker/safetensors/descriptor.h>
#include <lockstep/worker/safetensors/header.h>

namespace lockstep::worker {

/// A draft of one file (collectives/base/whole_file.h). One thread. Errors of all steps:
/// Environment.
class SafetensorsWriter {
 public:
  /// Writes the header. Of each tensor name, dtype and sizes count (lay_out). Errors: BadInput, as
  /// lay_out; Environment.
  [[nodiscard]] static Result<SafetensorsWriter> create(
      const std::string& path, std::vector<StoredTensor> tensors,
      std::map<std::string, std::string> metadata = {});

  /// In the order in which append() takes their bytes.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  /// The next bytes of the data, of any length. Errors: Internal (more than there are).
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// Errors: Internal (bytes are missing).
  [[nodiscard]] Result<void> sync();
  /// Gives the file its name, in place of an earlier one, and has the name written to disk.
  /// Requires sync().
  [[nodiscard]] Result<void> publish();

 private:
  SafetensorsWriter(std::string path, SafetensorsHeader header);
  std::string path_;
  DraftFile draft_;
  SafetensorsHeader header_;
  std::uint64_t appended_ = 0;
  bool synced_ = false;
};

/// A tensor by its name.
struct NamedArray {
  std::string name;
  Array array;
};
/// All at once: create, append, sync, publish.
[[nodiscard]] Result<void> write_safetensors(const std::string& path,
                                             const std::vector<NamedArray>& tensors,
                                             std::map<std::string, std::string> metadata = {});

}  // namespace lockstep::worker
