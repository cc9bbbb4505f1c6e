#include <limits>
#include <utility>

#include <lockstep/worker/controller/speech/field_bytes.h>

namespace lockstep::worker {
namespace {

constexpr int kDTypes = static_cast<int>(DType::F64) + 1, kKinds = static_cast<int>(Kind::Bool) + 1;
/// The most dims that are believed.
constexpr std::size_t kMostDims = 64;

}  // namespace

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

void put(ByteWriter& out, Handle handle) { out.u64(static_cast<std::uint64_t>(handle)); }
void put(ByteWriter& out, FrameNumber frame) { out.u32(static_cast<std::uint32_t>(frame)); }

void put(ByteWriter& out, const Status& status) {
  out.u8(static_cast<std::uint8_t>(status.code));
  out.text(status.message);
  out.text(status.source);
  out.u32(static_cast<std::uint32_t>(status.groups.size()));
  for (const RankValue& group : status.groups) {
    out.u32(static_cast<std::uint32_t>(group.ranks.runs().size()));
    for (const RankSet::Run& run : group.ranks.runs()) {
      out.u32(static_cast<std::uint32_t>(run.first));
      out.u32(static_cast<std::uint32_t>(run.last));
    }
    out.text(group.value);
  }
}

void put(ByteWriter& out, const std::optional<Status>& status) {
  out.u8(status ? 1 : 0);
  if (status) put(out, *status);
}

void put(ByteWriter& out, const std::vector<std::int64_t>& numbers) {
  out.u32(static_cast<std::uint32_t>(numbers.size()));
  for (const std::int64_t number : numbers) out.i64(number);
}

void put(ByteWriter& out, const TensorBytes& tensor) {
  out.u8(static_cast<std::uint8_t>(tensor.dtype));
  put(out, tensor.sizes);
  out.text(tensor.elements);
}

void put(ByteWriter& out, const Observation& seen) {
  const std::vector<SourceSpec>& sources = seen.list->sources();
  out.u32(static_cast<std::uint32_t>(sources.size()));
  for (const SourceSpec& source : sources) {
    out.text(source.name);
    out.u8(static_cast<std::uint8_t>(source.kind));
    out.u8(static_cast<std::uint8_t>(source.dtype));
    out.u32(source.ndim);
  }
  put(out, seen.values);
  put(out, seen.scalars);
}

std::uint8_t FieldReader::number_below(int limit) {
  const std::uint8_t number = u8();
  if (number < limit) return number;
  sound_ = false;
  return 0;
}

Rank FieldReader::rank() {
  const std::uint32_t number = u32();
  // Below the number of ranks, which is an int.
  sound_ = sound_ && number < static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max());
  return sound_ ? Rank{static_cast<std::int32_t>(number)} : Rank{};
}

DType FieldReader::dtype() { return static_cast<DType>(number_below(kDTypes)); }

Status FieldReader::status() {
  Status out;
  out.code = static_cast<Code>(number_below(static_cast<int>(Code::Internal) + 1));
  out.message = text();
  out.source = text();
  for (std::uint32_t groups = count(8); groups > 0 && sound(); --groups) {
    RankValue& group = out.groups.emplace_back();
    for (std::uint32_t runs = count(8); runs > 0 && sound(); --runs) {
      const Rank first = rank(), last = rank();
      sound_ = sound_ && first <= last;
      if (sound()) group.ranks.insert({first.value, last.value});
    }
    group.value = text();
  }
  return out;
}

std::optional<Status> FieldReader::status_if_any() {
  return flag() ? std::optional(status()) : std::nullopt;
}

std::vector<std::int64_t> FieldReader::numbers() {
  std::vector<std::int64_t> out;
  for (std::uint32_t left = count(8); left > 0 && sound(); --left) out.push_back(i64());
  return out;
}

TensorBytes FieldReader::tensor() {
  TensorBytes out;
  out.dtype = dtype();
  out.sizes = numbers();
  out.elements = text();
  const auto bytes = bytes_of(out.dtype, out.sizes);
  sound_ = sound_ && out.sizes.size() <= kMostDims && bytes && *bytes == out.elements.size();
  return sound() ? out : TensorBytes{};
}

Observation FieldReader::seen() {
  std::vector<SourceSpec> sources;
  for (std::uint32_t left = count(10); left > 0 && sound(); --left) {
    SourceSpec source;
    source.name = text();
    source.kind = static_cast<Kind>(number_below(kKinds));
    source.dtype = dtype();
    source.ndim = u32();
    sound_ = sound_ && source.ndim <= kMostDims &&
             (sources.empty() || sources.back().name < source.name);
    sources.push_back(std::move(source));
  }
  Observation out;
  out.values = numbers();
  out.scalars = numbers();
  if (!sound()) sources.clear();
  out.list = std::make_shared<const SourceList>(std::move(sources));
  sound_ = sound_ && out.values.size() == out.list->offsets().back() &&
           (out.scalars.empty() || out.scalars.size() == out.list->scalars());
  return out;
}

}  // namespace lockstep::worker
