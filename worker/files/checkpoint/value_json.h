// Small values as JSON. For .cpp files of this room only.
#pragma once

#include <lockstep/worker/files/checkpoint/checked_json.h>
#include <lockstep/worker/files/checkpoint/piece.h>

namespace lockstep::worker {

[[nodiscard]] CheckedJson json_of(const SmallValue& value);
/// Throws CheckedJson::exception if `json` is not a value.
[[nodiscard]] SmallValue value_in(const CheckedJson& json);
[[nodiscard]] ValueKind value_kind_in(const CheckedJson& json);

}  // namespace lockstep::worker
