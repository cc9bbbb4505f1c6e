#include <string>
#include <utility>

#include "handle.h"
#include <fmt/format.h>

using namespace lockstep;
using namespace lockstep::capi;
using worker::Field;
using worker::FieldJoin;
using worker::FieldType;
using worker::FieldValue;
using worker::JoinedField;

namespace {

Result<void> set(lockstep_observation* observation, size_t field, FieldType type,
                 FieldValue value) {
  if (observation == nullptr) return bad_input("observation is NULL");
  if (field >= observation->fields.size())
    return bad_input(fmt::format("there is no field {}; {} have been declared", field,
                                 observation->fields.size()));
  Field& found = observation->fields[field];
  if (found.spec.type != type)
    return bad_input(fmt::format("field {} was declared as {}, not as {}", found.spec.name,
                                 field_type_name(found.spec.type), field_type_name(type)));
  Field given{found.spec, std::move(value)};
  if (auto wrong = worker::field_error(given)) return *std::move(wrong);
  found = std::move(given);
  observation->changed = true;
  return {};
}

/// The type that a text field was declared with: Object or Text.
FieldType text_type(const lockstep_observation* observation, size_t field) {
  const bool object = observation != nullptr && field < observation->fields.size() &&
                      observation->fields[field].spec.type == FieldType::Object;
  return object ? FieldType::Object : FieldType::Text;
}

const JoinedField* field_of(const lockstep_decision* decision, size_t field) {
  if (decision == nullptr || field >= decision->decision.fields.size()) return nullptr;
  return &decision->decision.fields[field];
}

bool has_bytes(const JoinedField& field) { return field.spec.type >= FieldType::Text; }

}  // namespace

extern "C" {

int lockstep_observe_field(lockstep_observation* observation, const char* name, int type, int join,
                           size_t* field) {
  return guarded([&]() -> Result<void> {
    if (auto good = check_name(observation, name, "field"); !good) return good;
    if (type < LOCKSTEP_FIELD_BOOL || type > LOCKSTEP_FIELD_OBJECT)
      return bad_input(fmt::format("{} is no type of a field; use one of LOCKSTEP_FIELD_…", type));
    if (join < LOCKSTEP_JOIN_EQUAL || join > LOCKSTEP_JOIN_UNION)
      return bad_input(fmt::format("{} is no join; use one of LOCKSTEP_JOIN_…", join));
    if (type == LOCKSTEP_FIELD_OBJECT && join != LOCKSTEP_JOIN_EQUAL)
      return bad_input("objects are compared; their join is LOCKSTEP_JOIN_EQUAL");
    observation->fields.push_back(
        {{name, static_cast<FieldType>(type), static_cast<FieldJoin>(join)}, {}});
    observation->changed = true;
    if (field != nullptr) *field = observation->fields.size() - 1;
    return {};
  });
}

int lockstep_set_field_bool(lockstep_observation* observation, size_t field, int value) {
  return guarded([&]() -> Result<void> {
    if (value != 0 && value != 1)
      return bad_input(fmt::format("a bool cannot be {}; give 0 or 1", value));
    return set(observation, field, FieldType::Bool, {value, {}});
  });
}

int lockstep_set_field_int(lockstep_observation* observation, size_t field, int64_t value) {
  return guarded([&] { return set(observation, field, FieldType::Int, {value, {}}); });
}

int lockstep_set_field_text(lockstep_observation* observation, size_t field, const char* text) {
  return guarded([&]() -> Result<void> {
    if (text == nullptr) return bad_input("text is NULL; an empty one will do");
    return set(observation, field, text_type(observation, field), {0, text});
  });
}

int lockstep_set_field_bytes(lockstep_observation* observation, size_t field, const void* bytes,
                             size_t length) {
  return guarded([&]() -> Result<void> {
    if (bytes == nullptr && length > 0) return bad_input("bytes is NULL");
    constexpr std::size_t kAbsurd = std::size_t{1} << 30;
    if (length > kAbsurd) return bad_input(fmt::format("length is {}; a field takes 1024", length));
    std::string given(static_cast<const char*>(bytes == nullptr ? "" : bytes), length);
    const bool bytes_there = observation != nullptr && field < observation->fields.size() &&
                             observation->fields[field].spec.type == FieldType::Bytes;
    return set(observation, field, bytes_there ? FieldType::Bytes : text_type(observation, field),
               {0, std::move(given)});
  });
}

size_t lockstep_decision_fields(const lockstep_decision* decision) {
  return decision == nullptr ? 0 : decision->decision.fields.size();
}

const char* lockstep_decision_field_name(const lockstep_decision* decision, size_t field) {
  const JoinedField* found = field_of(decision, field);
  return found == nullptr ? nullptr : found->spec.name.c_str();
}

int lockstep_decision_field_type(const lockstep_decision* decision, size_t field) {
  const JoinedField* found = field_of(decision, field);
  return found == nullptr ? -1 : static_cast<int>(found->spec.type);
}

int lockstep_decision_field_join(const lockstep_decision* decision, size_t field) {
  const JoinedField* found = field_of(decision, field);
  return found == nullptr ? -1 : static_cast<int>(found->spec.join);
}

size_t lockstep_decision_field_values(const lockstep_decision* decision, size_t field) {
  const JoinedField* found = field_of(decision, field);
  return found == nullptr ? 0 : found->values.size();
}

int lockstep_decision_field_int(const lockstep_decision* decision, size_t field, size_t value,
                                int64_t* number) {
  return guarded([&]() -> Result<void> {
    const JoinedField* found = field_of(decision, field);
    if (found == nullptr || has_bytes(*found) || value >= found->values.size())
      return bad_input(fmt::format("the decision has no number {} of a field {}", value, field));
    if (number == nullptr) return bad_input("number is NULL; give the address of an int64_t");
    *number = found->values[value].number;
    return {};
  });
}

const char* lockstep_decision_field_bytes(const lockstep_decision* decision, size_t field,
                                          size_t value, size_t* length) {
  const JoinedField* found = field_of(decision, field);
  const bool there = found != nullptr && has_bytes(*found) && value < found->values.size();
  if (length != nullptr) *length = there ? found->values[value].bytes.size() : 0;
  return there ? found->values[value].bytes.c_str() : nullptr;
}

}  // extern "C"
