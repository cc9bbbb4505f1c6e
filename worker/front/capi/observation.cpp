#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "handle.h"
#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/dim_order.h>

using namespace lockstep;
using namespace lockstep::capi;
using worker::Kind;
using worker::Mark;

static_assert(LOCKSTEP_F64 == static_cast<int>(DType::F64));
static_assert(LOCKSTEP_BF16 == static_cast<int>(DType::BF16));
static_assert(LOCKSTEP_BOOLEAN == static_cast<int>(Kind::Bool));
static_assert(LOCKSTEP_MARK_UNIFORM == static_cast<int>(Mark::Uniform));
static_assert(LOCKSTEP_FIELD_OBJECT == static_cast<int>(worker::FieldType::Object));
static_assert(LOCKSTEP_JOIN_UNION == static_cast<int>(worker::FieldJoin::Union));

namespace {

constexpr size_t kMostDims = 16;

using Source = lockstep_observation::Source;

Result<void> declare(lockstep_observation* observation, const char* name, worker::SourceSpec spec,
                     size_t* source) {
  if (auto good = check_name(observation, name, "source"); !good) return good;
  spec.name = name;
  const size_t values =
      spec.kind == Kind::Tensor ? spec.ndim : (spec.kind == Kind::Float ? 0U : 1U);
  observation->sources.push_back(
      {std::move(spec), std::vector<std::int64_t>(values), std::vector<Mark>(values, Mark::None)});
  observation->declared = true;
  if (source != nullptr) *source = observation->sources.size() - 1;
  return {};
}

Result<Source*> source_of(lockstep_observation* observation, size_t source) {
  if (observation == nullptr) return bad_input("observation is NULL");
  if (source >= observation->sources.size())
    return bad_input(fmt::format("there is no source {}; {} have been declared", source,
                                 observation->sources.size()));
  return &observation->sources[source];
}

Result<Source*> source_of(lockstep_observation* observation, size_t source, Kind kind) {
  const auto found = source_of(observation, source);
  if (found && (*found)->spec.kind != kind)
    return bad_input(fmt::format("{} was declared as {}, not as {}", (*found)->spec.name,
                                 worker::kind_name((*found)->spec.kind), worker::kind_name(kind)));
  return found;
}

Result<void> check_sizes(const Source& source, std::span<const std::int64_t> sizes,
                         std::string_view what) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0)
      return bad_input(fmt::format("{} {} of {} is {}; it cannot be negative", what, d,
                                   source.spec.name, sizes[d]));
  return {};
}

Result<void> check_bool(const Source& source, std::int64_t value) {
  if (value == 0 || value == 1) return {};
  return bad_input(
      fmt::format("{} is a bool and cannot be {}; give 0 or 1", source.spec.name, value));
}

}  // namespace

Result<void> lockstep::capi::check_name(const lockstep_observation* observation, const char* name,
                                        std::string_view what) {
  if (observation == nullptr) return bad_input("observation is NULL");
  if (name == nullptr || *name == 0)
    return bad_input(
        fmt::format("name is NULL or empty; a {} needs one, such as \"batch.tokens\"", what));
  bool known = false;
  for (const auto& source : observation->sources) known |= source.spec.name == name;
  for (const worker::Field& field : observation->fields) known |= field.spec.name == name;
  if (!known) return {};
  return bad_input(
      fmt::format("{} has been declared already; declare each {} once and set it before each call",
                  name, what));
}

const worker::Observation& lockstep_observation::current() const {
  if (declared) make_list();
  if (declared || changed) copy_values();
  declared = changed = false;
  return observation_;
}

void lockstep_observation::make_list() const {
  order_.resize(sources.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
    return sources[a].spec.name < sources[b].spec.name;
  });
  std::vector<worker::SourceSpec> specs;
  for (const std::size_t i : order_) specs.push_back(sources[i].spec);
  observation_.list = std::make_shared<worker::SourceList>(std::move(specs));
}

void lockstep_observation::copy_values() const {
  bool marked = false;
  for (const Source& source : sources)
    for (const Mark mark : source.marks) marked |= mark != Mark::None;
  observation_.values.clear();
  observation_.orders.clear();
  observation_.marks.clear();
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const Source& source = sources[order_[place]];
    const auto& values = source.values;
    observation_.set_order(place, source.order);
    observation_.values.insert(observation_.values.end(), values.begin(), values.end());
    if (marked)
      observation_.marks.insert(observation_.marks.end(), source.marks.begin(), source.marks.end());
  }
  observation_.fields = fields;
  worker::sort_fields(observation_.fields);
}

extern "C" {

int lockstep_dtype_from_name(const char* name) {
  const auto dtype = name == nullptr ? std::nullopt : dtype_from_name(name);
  return dtype ? static_cast<int>(*dtype) : -1;
}

int lockstep_observation_create(lockstep_observation** observation) {
  return guarded([&]() -> Result<void> {
    if (observation == nullptr)
      return bad_input("observation is NULL; give the address of a handle");
    *observation = new lockstep_observation;
    return {};
  });
}

void lockstep_observation_free(lockstep_observation* observation) { delete observation; }

int lockstep_observe_tensor(lockstep_observation* observation, const char* name, int dtype,
                            size_t ndim, size_t* source) {
  return guarded([&]() -> Result<void> {
    if (dtype < LOCKSTEP_BOOL || dtype > LOCKSTEP_F64)
      return bad_input(fmt::format("{} is no dtype; use LOCKSTEP_BOOL to LOCKSTEP_F64", dtype));
    if (ndim > kMostDims)
      return bad_input(fmt::format("{} dims are too many; the most is {}", ndim, kMostDims));
    return declare(observation, name,
                   {{}, Kind::Tensor, static_cast<DType>(dtype), static_cast<std::uint32_t>(ndim)},
                   source);
  });
}

int lockstep_observe_int(lockstep_observation* observation, const char* name, size_t* source) {
  return guarded([&] { return declare(observation, name, {{}, Kind::Int}, source); });
}

int lockstep_observe_float(lockstep_observation* observation, const char* name, size_t* source) {
  return guarded([&] { return declare(observation, name, {{}, Kind::Float}, source); });
}

int lockstep_observe_bool(lockstep_observation* observation, const char* name, size_t* source) {
  return guarded([&] { return declare(observation, name, {{}, Kind::Bool}, source); });
}

int lockstep_set_sizes(lockstep_observation* observation, size_t source, const int64_t* sizes,
                       const int64_t* strides) {
  return guarded([&]() -> Result<void> {
    const auto found = source_of(observation, source, Kind::Tensor);
    if (!found) return found.error();
    Source& tensor = **found;
    const size_t ndim = tensor.values.size();
    if (sizes == nullptr && ndim > 0)
      return bad_input(fmt::format("sizes is NULL; {} has {} of them", tensor.spec.name, ndim));
    if (auto good = check_sizes(tensor, {sizes, ndim}, "size"); !good) return good;
    if (strides != nullptr)
      if (auto good = check_sizes(tensor, {strides, ndim}, "stride"); !good) return good;
    tensor.values.assign(sizes, sizes + ndim);
    tensor.order = strides == nullptr ? 0 : worker::dim_order(tensor.values, {strides, ndim});
    observation->changed = true;
    return {};
  });
}

int lockstep_set_int(lockstep_observation* observation, size_t source, int64_t value) {
  return guarded([&]() -> Result<void> {
    const auto found = source_of(observation, source, Kind::Int);
    if (!found) return found.error();
    (*found)->values[0] = value;
    observation->changed = true;
    return {};
  });
}

int lockstep_set_bool(lockstep_observation* observation, size_t source, int value) {
  return guarded([&]() -> Result<void> {
    const auto found = source_of(observation, source, Kind::Bool);
    if (!found) return found.error();
    if (auto good = check_bool(**found, value); !good) return good;
    (*found)->values[0] = value;
    observation->changed = true;
    return {};
  });
}

int lockstep_set_all(lockstep_observation* observation, const int64_t* values, size_t count) {
  return guarded([&]() -> Result<void> {
    if (observation == nullptr) return bad_input("observation is NULL");
    size_t expected = 0;
    for (const Source& source : observation->sources) expected += source.values.size();
    if (count != expected)
      return bad_input(
          fmt::format("{} values were given; the declared sources have {}", count, expected));
    if (values == nullptr && count > 0) return bad_input("values is NULL");
    size_t at = 0;
    for (const Source& source : observation->sources) {
      const std::span own{values + at, source.values.size()};
      at += own.size();
      if (source.spec.kind == Kind::Tensor)
        if (auto good = check_sizes(source, own, "size"); !good) return good;
      if (source.spec.kind == Kind::Bool)
        if (auto good = check_bool(source, own[0]); !good) return good;
    }
    for (Source& source : observation->sources) {
      std::copy_n(values, source.values.size(), source.values.begin());
      values += source.values.size();
      source.order = 0;
    }
    observation->changed = true;
    return {};
  });
}

int lockstep_set_mark(lockstep_observation* observation, size_t source, size_t dim, int mark) {
  return guarded([&]() -> Result<void> {
    const auto found = source_of(observation, source, Kind::Tensor);
    if (!found) return found.error();
    if (dim >= (*found)->marks.size())
      return bad_input(fmt::format("{} has {} dims, so there is no dim {}", (*found)->spec.name,
                                   (*found)->marks.size(), dim));
    if (mark < LOCKSTEP_MARK_NONE || mark > LOCKSTEP_MARK_UNIFORM)
      return bad_input(fmt::format("{} is no mark; use one of LOCKSTEP_MARK_…", mark));
    (*found)->marks[dim] = static_cast<Mark>(mark);
    observation->changed = true;
    return {};
  });
}

}  // extern "C"
