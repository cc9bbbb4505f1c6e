#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {
namespace {

/// In a message: maximum number of bytes of a value, and of values of a union.
constexpr std::size_t kShown = 64, kShownValues = 16;

/// The text in quotes, escaped: always one line, and different for different texts.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || c == '"')
      out += std::string("\\") + c;
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + '"';
}

bool has(const std::vector<FieldValue>& values, const FieldValue& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool absorbs_value(const JoinedField& joined, const FieldValue& value) {
  switch (joined.spec.join) {
    case FieldJoin::Equal:
      return value == joined.values.front();
    case FieldJoin::Min:
      return value >= joined.values.front();
    case FieldJoin::Max:
      return value <= joined.values.front();
    case FieldJoin::Union:
      return has(joined.values, value);
  }
  return false;
}

}  // namespace

std::string_view field_type_name(FieldType type) {
  static constexpr std::array<std::string_view, kFieldTypes> kNames{"bool", "int", "string",
                                                                    "bytes", "object"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view field_join_name(FieldJoin join) {
  static constexpr std::array<std::string_view, kFieldJoins> kNames{"equal", "min", "max", "union"};
  return kNames[static_cast<std::size_t>(join)];
}

bool JoinedField::absorbs(const Field& own) const {
  return own.spec == spec && absorbs_value(*this, own.value);
}

bool JoinedField::absorbs(const JoinedField& older) const {
  return older.spec == spec &&
         std::all_of(older.values.begin(), older.values.end(),
                     [&](const FieldValue& value) { return absorbs_value(*this, value); });
}

std::size_t bytes_of(FieldType type, const FieldValue& value) {
  if (type == FieldType::Bool) return 1;
  return type == FieldType::Int ? sizeof value.number : value.bytes.size();
}

std::string value_text(FieldType type, const FieldValue& value) {
  if (type == FieldType::Bool) return value.number != 0 ? "true" : "false";
  if (type == FieldType::Int) return std::to_string(value.number);
  std::size_t end = std::min(kShown, value.bytes.size());
  // Do not cut within a character.
  while (type != FieldType::Bytes && end > 0 && end < value.bytes.size() &&
         (static_cast<unsigned char>(value.bytes[end]) & 0xc0U) == 0x80)
    --end;
  const std::string_view shown = std::string_view(value.bytes).substr(0, end);
  std::string out =
      type == FieldType::Bytes ? "0x" + hex_of(std::as_bytes(std::span(shown))) : quoted(shown);
  if (type == FieldType::Object) out = out.substr(1, out.size() - 2);
  if (shown.size() < value.bytes.size())
    out += fmt::format("… ({} bytes, {})", value.bytes.size(),
                       shapes::fingerprint(value.bytes).text().substr(0, 8));
  return out;
}

std::string joined_text(const JoinedField& field) {
  std::string out(field_join_name(field.spec.join));
  shapes::FingerprintBuilder rest;
  for (std::size_t i = 0; i < field.values.size(); ++i)
    if (i < kShownValues)
      out += (i == 0 ? " " : ", ") + value_text(field.spec.type, field.values[i]);
    else
      rest.add(field.values[i].number).add(field.values[i].bytes);
  if (field.values.size() > kShownValues)
    out += fmt::format(" and {} more ({})", field.values.size() - kShownValues,
                       rest.finish().text().substr(0, 8));
  return out;
}

std::string spec_text(const FieldSpec& spec) {
  return fmt::format("{}, {}", field_type_name(spec.type), field_join_name(spec.join));
}

bool absorb(const std::vector<JoinedField>& joined, const std::vector<Field>& own) {
  return std::equal(joined.begin(), joined.end(), own.begin(), own.end(),
                    [](const JoinedField& j, const Field& o) { return j.absorbs(o); });
}

std::optional<std::string> field_misfit(const std::vector<JoinedField>& joined,
                                        const std::vector<Field>& own) {
  for (const Field& field : own) {
    const std::string& name = field.spec.name;
    const auto known = std::find_if(joined.begin(), joined.end(),
                                    [&](const JoinedField& j) { return j.spec.name == name; });
    if (known == joined.end()) return fmt::format("the entry has no field {}", name);
    if (known->absorbs(field)) continue;
    if (known->spec != field.spec)
      return fmt::format("field {} is {}, in the entry it is {}", name, spec_text(field.spec),
                         spec_text(known->spec));
    return fmt::format("{} is {}, the entry has {}", name, value_text(field.spec.type, field.value),
                       joined_text(*known));
  }
  for (const JoinedField& known : joined)
    if (std::none_of(own.begin(), own.end(),
                     [&](const Field& field) { return field.spec.name == known.spec.name; }))
      return fmt::format("field {} of the entry is missing", known.spec.name);
  return std::nullopt;
}

void sort_fields(std::vector<Field>& fields) {
  std::stable_sort(fields.begin(), fields.end(),
                   [](const Field& a, const Field& b) { return a.spec.name < b.spec.name; });
}

std::optional<Status> field_error(const Field& field) {
  if (field.spec.name.empty())
    return bad_input("a field has an empty name; name it, such as \"capacity\"");
  if (field.value.bytes.size() <= kMostFieldBytes) return std::nullopt;
  return bad_input(fmt::format("field {} has {} bytes and a field takes at most {}; give a "
                               "fingerprint or a number in its place",
                               field.spec.name, field.value.bytes.size(), kMostFieldBytes),
                   field.spec.name);
}

}  // namespace lockstep::worker
