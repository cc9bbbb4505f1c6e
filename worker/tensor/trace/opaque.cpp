#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/tensor/trace/opaque.h>

namespace lockstep::worker {
namespace {

/// True for the same allocation, even if its object is destroyed: the weak reference keeps its
/// counters.
bool same_owner(const std::weak_ptr<const void>& known, const std::shared_ptr<const void>& object) {
  return !known.owner_before(object) && !object.owner_before(known);
}

}  // namespace

std::uint32_t ObjectTable::number_of(const OpaqueInput& input) {
  for (const Known& known : known_)
    if (!known.hash && known.type == input.type_ && known.address == input.object() &&
        same_owner(known.object, input.object_))
      return known.number;
  // Destroyed objects cannot be passed again.
  std::erase_if(known_, [](const Known& known) { return !known.hash && known.object.expired(); });
  known_.push_back({input.object_, input.object(), input.type_, {}, ++last_});
  return last_;
}

std::uint32_t ObjectTable::number_of_equal(const OpaqueInput& input) {
  std::uint32_t before = 0;
  Known* gone = nullptr;
  for (Known& known : known_) {
    if (known.type != input.type_ || known.hash != input.hash_) continue;
    before = std::max(before, known.number);
    const std::shared_ptr<const void> live = known.object.lock();
    if (live == nullptr) {
      if (gone == nullptr) gone = &known;
    } else if (live.get() == input.object() || input.equal_(live.get(), input.object())) {
      return known.number;
    }
  }
  if (gone != nullptr) {
    gone->object = input.object_;
    return gone->number;
  }
  known_.push_back({input.object_, input.object(), input.type_, input.hash_, before + 1});
  return before + 1;
}

Field ObjectTable::field(std::string name, const OpaqueInput& input) {
  std::string value;
  if (!input.hash_) {
    value = fmt::format("object {}", number_of(input));
  } else {
    const std::uint32_t number = number_of_equal(input);
    value =
        fmt::format("{}{}hash {:016x}", input.text_, input.text_.empty() ? "" : ", ", *input.hash_);
    if (number > 1) value += fmt::format(", number {}", number);
  }
  return {{std::move(name), FieldType::Object, FieldJoin::Equal}, {0, std::move(value)}};
}

Field key_order_field(std::string list, const std::vector<std::string_view>& keys) {
  std::string value = fmt::format("{}", fmt::join(keys, ", "));
  shapes::FingerprintBuilder all;
  for (const std::string_view key : keys) all.add(key);
  // A digest replaces text that is too long, or ambiguous because a key has ", " or a null byte.
  const bool plain = value.size() <= kMostFieldBytes / 2 && value.find('\0') == std::string::npos &&
                     std::ranges::none_of(keys, [](std::string_view key) {
                       return key.find(", ") != std::string_view::npos;
                     });
  if (!plain) value = fmt::format("{} keys, {}", keys.size(), all.finish().text());
  return {{std::move(list) + ".keys()", FieldType::Text, FieldJoin::Equal}, {0, std::move(value)}};
}

}  // namespace lockstep::worker
