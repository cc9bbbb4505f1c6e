// Reads a safetensors file and writes what it read to another, tensor by tensor.
// usage: safetensors_copy FROM TO
#include <cstdio>

#include <lockstep/worker/files/safetensors/file.h>
#include <lockstep/worker/files/safetensors/writer.h>

using namespace lockstep;
using namespace lockstep::worker;

namespace {

int complain(const Status& status) {
  std::fprintf(stderr, "safetensors_copy: %s\n", status.message.c_str());
  return exit_code(status.code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: safetensors_copy FROM TO\n", stderr);
    return 2;
  }
  auto from = SafetensorsFile::open(argv[1]);
  if (!from) return complain(from.error());
  std::vector<NamedArray> tensors;
  for (const StoredTensor& tensor : from->tensors()) {
    auto array = from->read(tensor.name);
    if (!array) return complain(array.error());
    tensors.push_back({tensor.name, std::move(*array)});
  }
  const auto written = write_safetensors(argv[2], tensors, from->header().metadata);
  return written ? 0 : complain(written.error());
}
