#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/compile/opcheck/first_difference.h>
#include <lockstep/worker/compile/opcheck/guarded_call.h>

namespace lockstep::worker {
namespace {

// Bytes on either side of a value: enough to catch a loop that runs one row too far.
constexpr std::size_t kMargin = 4096;
// Bytes that fill the margins, and a result before it is written. As floats they are finite.
constexpr std::byte kAround[] = {std::byte{0x25}, std::byte{0x3c}};
constexpr std::byte kBefore[] = {std::byte{0x5a}, std::byte{0x41}};

/// A value between two margins.
class GuardedValue {
 public:
  GuardedValue(std::size_t bytes, std::byte around)
      : bytes_(bytes), around_(around), memory_(Array::zeros(DType::U8, {total()})) {
    std::memset(start(), static_cast<int>(around), static_cast<std::size_t>(total()));
  }
  [[nodiscard]] std::byte* value() { return start() + kMargin; }
  /// Returns the distance from the value's start to the first margin byte that has changed.
  [[nodiscard]] std::optional<std::int64_t> changed() {
    for (std::size_t i = 0; i < static_cast<std::size_t>(total()); ++i)
      if ((i < kMargin || i >= kMargin + bytes_) && start()[i] != around_)
        return static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kMargin);
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::int64_t total() const {
    return static_cast<std::int64_t>(bytes_ + 2 * kMargin);
  }
  [[nodiscard]] std::byte* start() { return memory_.data_as<std::byte>(); }
  std::size_t bytes_;
  std::byte around_;
  Array memory_;
};

bool holds_only(const Array& array, std::int64_t element, std::byte what) {
  const std::size_t size = dtype_size(array.dtype());
  const auto* at = array.data_as<std::byte>() + static_cast<std::size_t>(element) * size;
  return std::all_of(at, at + size, [&](std::byte b) { return b == what; });
}

/// The calls of one way at one tuple of sizes.
class GuardedCalls {
 public:
  GuardedCalls(const OpWay& way, DType dtype, const std::vector<std::int64_t>& sizes)
      : way_(way), dtype_(dtype), sizes_(sizes) {}

  Result<Array> call(const std::vector<Array>& inputs, std::byte around, std::byte before) {
    std::vector<GuardedValue> guarded;
    std::vector<const void*> pointers;
    for (const Array& input : inputs) {
      guarded.emplace_back(input.bytes(), around);
      if (input.bytes() > 0) std::memcpy(guarded.back().value(), input.data(), input.bytes());
      pointers.push_back(guarded.back().value());
    }
    Array result(dtype_, sizes_);
    GuardedValue out(result.bytes(), kAround[0]);
    std::memset(out.value(), static_cast<int>(before), result.bytes());
    if (auto done = way_.call(pointers, out.value()); !done) return done.error();
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (auto status = written(k, inputs[k], guarded[k])) return *status;
    if (const auto at = out.changed())
      return failure("writes {} of its result", *at < 0 ? "before the start" : "beyond the end");
    if (result.bytes() > 0) std::memcpy(result.data(), out.value(), result.bytes());
    return result;
  }

  template <class... Args>
  [[nodiscard]] Status failure(fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input(
        fmt::format("{} {}", way_.name, fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  [[nodiscard]] std::optional<Status> written(std::size_t k, const Array& input,
                                              GuardedValue& guarded) const {
    const Array now = Array::over(input.dtype(), input.sizes(), guarded.value());
    if (const auto at = first_difference(input, now))
      return failure("writes to its input {}: element {} was {} and is {}", k, *at, input.at(*at),
                     now.at(*at));
    if (const auto at = guarded.changed())
      return failure("writes {} of its input {}", *at < 0 ? "before the start" : "beyond the end",
                     k);
    return std::nullopt;
  }

  const OpWay& way_;
  DType dtype_;
  const std::vector<std::int64_t>& sizes_;
};

}  // namespace

Result<Array> guarded_call(const OpWay& way, const OwnClaims& claims,
                           const std::vector<Array>& inputs, const std::vector<Array>& others,
                           DType dtype, const std::vector<std::int64_t>& sizes) {
  GuardedCalls calls(way, dtype, sizes);
  auto first = calls.call(inputs, kAround[0], kBefore[0]);
  if (!first) return first;
  if (auto between = calls.call(others, kAround[0], kBefore[0]); !between) return between;
  const auto again = calls.call(inputs, kAround[0], kBefore[0]);
  if (!again) return again;
  const auto prefilled = calls.call(inputs, kAround[0], kBefore[1]);
  if (!prefilled) return prefilled;
  for (std::int64_t i = 0; i < first->elements(); ++i)
    if (holds_only(*first, i, kBefore[0]) && holds_only(*prefilled, i, kBefore[1]))
      return calls.failure("does not write element {} of its result", i);
  if (!claims.deterministic) return first;
  if (const auto at = first_difference(*first, *again))
    return calls.failure(
        "gives other bits for equal inputs: element {} is {}, and after a call on other inputs {}; "
        "does it depend on a global, the time or memory that is not its own? "
        "If it is meant to, do not claim that it is deterministic",
        *at, first->at(*at), again->at(*at));
  if (const auto at = first_difference(*first, *prefilled))
    return calls.failure("reads its result before it writes it: element {} is {} or {}", *at,
                         first->at(*at), prefilled->at(*at));
  const auto moved = calls.call(inputs, kAround[1], kBefore[0]);
  if (!moved) return moved;
  if (const auto at = first_difference(*first, *moved))
    return calls.failure(
        "reads outside of its inputs: element {} is {} or {}, with what lies around them", *at,
        first->at(*at), moved->at(*at));
  return first;
}

}  // namespace lockstep::worker
