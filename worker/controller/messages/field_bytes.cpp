#include <limits>
#include <memory>
#include <utility>

#include <lockstep/worker/controller/messages/field_bytes.h>

namespace lockstep::worker {

std::optional<std::uint64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& sizes) {
  std::uint64_t bytes = dtype_size(dtype);
  bool none = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    none = none || size == 0;
  }
  if (none) return 0;
  for (const std::int64_t size : sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor)
      return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

void fields(collectives::FieldWriter& visit, const Observation& seen) {
  visit.list(seen.list->sources(), kAnyLength, 10, kStruct);
  kNumbers(visit, seen.values);
  kNumbers(visit, seen.scalars);
}

void fields(collectives::FieldReader& visit, Observation& seen) {
  std::vector<SourceSpec> sources;
  visit.list(sources, kAnyLength, 10, kStruct);
  for (std::size_t i = 1; i < sources.size(); ++i)
    visit.require(sources[i - 1].name < sources[i].name);
  kNumbers(visit, seen.values);
  kNumbers(visit, seen.scalars);
  if (!visit.sound()) sources.clear();
  seen.list = std::make_shared<const SourceList>(std::move(sources));
  visit.require(seen.values.size() == seen.list->offsets().back() &&
                (seen.scalars.empty() || seen.scalars.size() == seen.list->scalars()));
}

}  // namespace lockstep::worker
