// Converts the parts of a program to and from their stored form: decisions, guards and symbols.
// Reading checks each part by itself, and throws StoredFlaw with what is wrong. Internal to this
// room.
#pragma once

#include <string_view>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/group_guard.h>
#include <lockstep/worker/agree/exchange/uniform_size.h>
#include <lockstep/worker/files/saved/stored_form.h>

namespace lockstep::worker {

[[nodiscard]] StoredLine stored(TextWriter& texts, const shapes::Location& where);
[[nodiscard]] StoredSymbol stored(const shapes::Symbol& symbol);
[[nodiscard]] StoredGuard stored(TextWriter& texts, const shapes::Guard& guard);
[[nodiscard]] StoredGuard stored(TextWriter& texts, const shapes::DeferredAssert& check);
[[nodiscard]] StoredGroupGuard stored(TextWriter& texts, const GroupGuard& guard);
[[nodiscard]] StoredUniform stored(TextWriter& texts, const UniformSize& size);
[[nodiscard]] std::vector<StoredStep> stored(TextWriter& texts, const HostValue& value);
[[nodiscard]] StoredDecision stored(TextWriter& texts, const Decision& decision);

[[nodiscard]] shapes::Location location_of(TextReader& texts, const StoredLine& line);
[[nodiscard]] shapes::Symbol symbol_of(const StoredSymbol& symbol);
[[nodiscard]] shapes::Guard guard_of(TextReader& texts, const StoredGuard& guard);
[[nodiscard]] shapes::DeferredAssert assert_of(TextReader& texts, const StoredGuard& check);
[[nodiscard]] GroupGuard group_guard_of(TextReader& texts, const StoredGroupGuard& guard);
[[nodiscard]] UniformSize uniform_of(TextReader& texts, const StoredUniform& size);
[[nodiscard]] HostValue host_value_of(TextReader& texts, const std::vector<StoredStep>& steps);
/// Returns a decision from which a SourceList and an Entry can be made.
[[nodiscard]] Decision decision_of(TextReader& texts, const StoredDecision& decision);

/// Converts a number to an enumeration that has `count` values. Throws StoredFlaw.
template <class Enum>
[[nodiscard]] Enum enum_of(std::uint8_t number, int count, std::string_view what) {
  if (number >= count) throw StoredFlaw("there is no " + std::string(what));
  return static_cast<Enum>(number);
}
[[nodiscard]] DType dtype_of(std::uint8_t number);
/// Converts 0 or 1. Throws StoredFlaw.
[[nodiscard]] bool flag_of(std::uint8_t number);

template <class To, class From, class Make>
[[nodiscard]] std::vector<To> each(const std::vector<From>& from, const Make& make) {
  std::vector<To> out;
  for (const From& one : from) out.push_back(make(one));
  return out;
}

}  // namespace lockstep::worker
