
#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/simulator/input/record_fields.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {
namespace {

template <class T>
std::optional<T> named(std::string_view text, std::string_view (*name_of)(T), int count) {
  for (int i = 0; i < count; ++i)
    if (name_of(static_cast<T>(i)) == text) return static_cast<T>(i);
  return std::nullopt;
}

constexpr int kKinds = 4, kCodes = static_cast<int>(Code::Internal) + 1;

}  // namespace

template <class Read>
auto RecordFields::within(const Json& object, std::string_view key, Read read) {
  RecordFields inner(object, name_, world_size_);
  if (object.as<Json::Object>() == nullptr) fail(key, "an object is expected here");
  auto out = read(inner);
  if (inner.error_ && !error_) error_ = inner.error_;
  return out;
}

void RecordFields::fail(std::string_view key, std::string_view what) {
  const JsonPath root;
  if (!error_) error_ = json_error(name_, root.at(key), what);
}

const Json* RecordFields::get(std::string_view key) {
  const Json* out = line_.find(key);
  if (out == nullptr) fail(key, "this key is missing");
  return error_ ? nullptr : out;
}

const Json::Array* RecordFields::list(std::string_view key) {
  const Json* json = get(key);
  if (json == nullptr) return nullptr;
  const auto* out = json->as<Json::Array>();
  if (out == nullptr) fail(key, "a list is expected here");
  return out;
}

std::string RecordFields::text_of(const Json& json, std::string_view key) {
  if (const auto* plain = json.as<std::string>()) return *plain;
  const Json* hex = json.find("hex");
  const auto* digits = hex == nullptr ? nullptr : hex->as<std::string>();
  const auto bytes = digits == nullptr ? std::nullopt : bytes_of_hex(*digits);
  if (!bytes) fail(key, "a text is expected here");
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

std::string RecordFields::text(std::string_view key) {
  const Json* json = get(key);
  return json == nullptr ? std::string() : text_of(*json, key);
}

std::int64_t RecordFields::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Json* json = get(key);
  if (json == nullptr) return low;
  const auto* number = json->as<std::int64_t>();
  if (number != nullptr && *number >= low && *number <= high) return *number;
  fail(key, fmt::format("an integer from {} to {} is expected here", low, high));
  return low;
}

bool RecordFields::flag(std::string_view key) {
  const Json* json = get(key);
  const auto* value = json == nullptr ? nullptr : json->as<bool>();
  if (value == nullptr) fail(key, "true or false is expected here");
  return value != nullptr && *value;
}

std::vector<std::int64_t> RecordFields::integers(std::string_view key) {
  std::vector<std::int64_t> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const auto* number = (*items)[i].as<std::int64_t>();
    if (number == nullptr) fail(key, "a list of integers is expected here");
    out.push_back(number == nullptr ? 0 : *number);
  }
  return out;
}

std::vector<Mark> RecordFields::marks(std::string_view key) {
  std::vector<Mark> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const auto mark = named<Mark>(text_of((*items)[i], key), mark_name, kMarkCount);
    if (!mark) fail(key, "a list of marks is expected here");
    out.push_back(mark.value_or(Mark::None));
  }
  return out;
}

std::uint64_t RecordFields::hexadecimal(std::string_view key) {
  const auto out = number_in<std::uint64_t>(text(key), 16);
  if (!out) fail(key, "up to 16 hexadecimal digits are expected here");
  return out.value_or(0);
}

shapes::Fingerprint RecordFields::fingerprint_of(const Json& json, std::string_view key) {
  const std::string digits = text_of(json, key);
  const auto out = shapes::Fingerprint::read(digits);
  if (!out) fail(key, "32 hexadecimal digits are expected here");
  return out.value_or(shapes::Fingerprint{});
}

shapes::Fingerprint RecordFields::fingerprint(std::string_view key) {
  const Json* json = get(key);
  return json == nullptr ? shapes::Fingerprint{} : fingerprint_of(*json, key);
}

std::vector<shapes::Fingerprint> RecordFields::fingerprints(std::string_view key) {
  std::vector<shapes::Fingerprint> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(fingerprint_of((*items)[i], key));
  return out;
}

RankSet RecordFields::ranks(std::string_view key) {
  std::string wrong;
  const auto out = parse_ranks(text(key), world_size_, wrong);
  if (!out) fail(key, wrong);
  return out.value_or(RankSet{});
}

RoundKey RecordFields::round_key(std::string_view key) {
  const Json* json = get(key);
  if (json == nullptr) return {};
  return within(*json, key, [](RecordFields& in) {
    RoundKey out;
    out.epoch = static_cast<std::uint64_t>(in.integer("epoch", 0, INT64_MAX));
    out.group = in.text("group");
    out.frame = in.text("frame");
    out.call = static_cast<std::uint64_t>(in.integer("call", 0, INT64_MAX));
    out.round = in.has("round") ? static_cast<std::uint64_t>(in.integer("round", 0, INT64_MAX))
                                : out.call;  // older records have no rounds of their own
    out.attempt = static_cast<std::uint32_t>(in.integer("attempt", 0, UINT32_MAX));
    if (in.has("consistency")) out.consistency = in.consistency("consistency");
    if (in.has("options")) out.options = in.text("options");
    if (in.has("after")) out.after = in.text("after");
    if (in.has("owed")) out.pending_call = in.text("owed");
    if (in.has("owed_round"))
      out.pending_round = static_cast<std::uint64_t>(in.integer("owed_round", 0, INT64_MAX));
    return out;
  });
}

std::vector<SourceSpec> RecordFields::sources(std::string_view key) {
  std::vector<SourceSpec> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(within((*items)[i], key, [](RecordFields& in) {
      SourceSpec spec{.name = in.text("name")};
      const auto kind = named<Kind>(in.text("kind"), kind_name, kKinds);
      if (!kind) in.fail("kind", "this is no kind of input");
      spec.kind = kind.value_or(Kind::Float);
      if (spec.kind != Kind::Tensor) return spec;
      const auto dtype = dtype_from_name(in.text("dtype"));
      if (!dtype) in.fail("dtype", "this is no element type");
      spec.dtype = dtype.value_or(DType::F32);
      spec.ndim = static_cast<std::uint32_t>(in.integer("ndim", 0, 1024));
      return spec;
    }));
  return out;
}

shapes::Predicate RecordFields::predicate() {
  std::optional<shapes::Predicate> out;
  try {
    out = shapes::parse_predicate(text("text"));
  } catch (const shapes::OverflowError&) {
    out.reset();
  }
  if (!out) fail("text", "this is no guard");
  return out.value_or(shapes::Predicate{});
}

std::vector<Field> RecordFields::user_fields(std::string_view key) {
  std::vector<Field> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(within((*items)[i], key, [](RecordFields& in) {
      Field field;
      field.spec.name = in.text("name");
      const auto type = named<FieldType>(in.text("type"), field_type_name, kFieldTypes);
      if (!type) in.fail("type", "this is no type of a field");
      const auto join = named<FieldJoin>(in.text("join"), field_join_name, kFieldJoins);
      if (!join) in.fail("join", "this is no join of a field");
      field.spec.type = type.value_or(FieldType::Int);
      field.spec.join = join.value_or(FieldJoin::Equal);
      if (field.spec.type == FieldType::Bool)
        field.value.number = in.flag("value") ? 1 : 0;
      else if (field.spec.type == FieldType::Int)
        field.value.number = in.integer("value", INT64_MIN, INT64_MAX);
      else
        field.value.bytes = in.text("value");
      return field;
    }));
  return out;
}

std::vector<shapes::Guard> RecordFields::guards(std::string_view key) {
  std::vector<shapes::Guard> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(within((*items)[i], key, [](RecordFields& in) {
      return shapes::Guard{
          in.predicate(),
          {in.text("file"), static_cast<std::uint32_t>(in.integer("line", 0, UINT32_MAX))}};
    }));
  return out;
}

std::vector<HostValue> RecordFields::host_values(std::string_view key) {
  std::vector<HostValue> out;
  const auto* values = list(key);
  for (std::size_t i = 0; values != nullptr && i < values->size(); ++i) {
    out.emplace_back();
    const auto* steps = (*values)[i].as<Json::Array>();
    if (steps == nullptr) fail(key, "a list of lists of steps is expected here");
    for (std::size_t k = 0; steps != nullptr && k < steps->size(); ++k)
      out.back().steps.push_back(within((*steps)[k], key, [](RecordFields& in) {
        HostValue::Step step;
        const auto code = named<HostValue::Code>(in.text("do"), host_code_name, kHostCodes);
        if (!code) in.fail("do", "this is no step of a value");
        step.code = code.value_or(HostValue::Code::Number);
        if (step.code == HostValue::Code::Input) step.source = in.text("source");
        if (step.code == HostValue::Code::Number)
          step.number = std::bit_cast<double>(in.integer("bits", INT64_MIN, INT64_MAX));
        return step;
      }));
  }
  return out;
}

std::vector<GroupGuard> RecordFields::group_guards(std::string_view key) {
  std::vector<GroupGuard> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(within((*items)[i], key, [](RecordFields& in) {
      GroupGuard guard;
      guard.predicate = in.predicate();
      const std::string over = in.text("over");
      if (over != "any" && over != "all") in.fail("over", "\"any\" or \"all\" is expected here");
      guard.over = over == "any" ? GroupGuard::Over::Any : GroupGuard::Over::All;
      guard.value = in.flag("value");
      guard.where = {in.text("file"),
                     static_cast<std::uint32_t>(in.integer("line", 0, UINT32_MAX))};
      return guard;
    }));
  return out;
}

std::vector<UniformSize> RecordFields::uniform_sizes(std::string_view key) {
  std::vector<UniformSize> out;
  const auto* items = list(key);
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    out.push_back(within((*items)[i], key, [](RecordFields& in) {
      UniformSize size;
      const auto expr = shapes::parse_expr(in.text("text"));
      if (!expr) in.fail("text", "this is no size");
      size.expr = expr.value_or(shapes::Expr(0));
      size.what = in.text("what");
      size.where = {in.text("file"), static_cast<std::uint32_t>(in.integer("line", 0, UINT32_MAX))};
      return size;
    }));
  return out;
}

Status RecordFields::status(std::string_view key) {
  const Json* json = get(key);
  if (json == nullptr) return {};
  return within(*json, key, [](RecordFields& in) {
    Status out;
    const auto code = named<Code>(in.text("code"), code_name, kCodes);
    if (!code) in.fail("code", "this is no error code");
    out.code = code.value_or(Code::Internal);
    out.message = in.text("message");
    out.source = in.text("source");
    const auto* groups = in.list("groups");
    for (std::size_t i = 0; groups != nullptr && i < groups->size(); ++i)
      out.groups.push_back(in.within((*groups)[i], "groups", [](RecordFields& group) {
        return RankValue{group.ranks("ranks"), group.text("value")};
      }));
    return out;
  });
}

RecordHeader::Program RecordFields::program(std::string_view key) {
  const Json* json = get(key);
  if (json == nullptr) return {};
  return within(*json, key, [](RecordFields& in) {
    RecordHeader::Program out{
        .path = in.text("path"), .directory = in.text("directory"), .arguments = {}};
    const auto* words = in.list("arguments");
    for (std::size_t i = 0; words != nullptr && i < words->size(); ++i)
      out.arguments.push_back(in.text_of((*words)[i], "arguments"));
    return out;
  });
}

Consistency RecordFields::consistency(std::string_view key) {
  const auto found = consistency_of(text(key));
  if (!found) fail(key, "this is no consistency");
  return found.value_or(Consistency::SameGraph);
}

DecisionConfig RecordFields::config(std::string_view key) {
  const Json* json = get(key);
  if (json == nullptr) return {};
  return within(*json, key, [](RecordFields& in) {
    DecisionConfig out{.settle = in.has("settle") && in.flag("settle")};
    out.consistency = in.consistency("consistency");
    out.automatic_dynamic = in.flag("automatic_dynamic");
    out.assume_at_least_two = in.flag("assume_at_least_two");
    out.recompile_limit = static_cast<int>(in.integer("recompile_limit", 1, 64));
    if (in.has("specialize_int")) out.specialize_int = in.flag("specialize_int");
    return out;
  });
}

CallOutcome::Kind RecordFields::outcome(std::string_view key) {
  const std::string name = text(key);
  if (name == "reused") return CallOutcome::Kind::Reused;
  if (name == "compiled") return CallOutcome::Kind::Compiled;
  if (name == "fallback") return CallOutcome::Kind::Fallback;
  if (name != "error") fail(key, "this is no outcome");
  return CallOutcome::Kind::Error;
}

}  // namespace lockstep::worker::simulator
