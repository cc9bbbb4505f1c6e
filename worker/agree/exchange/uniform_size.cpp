#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/agree/exchange/uniform_size.h>

namespace lockstep::worker {

std::uint64_t mixed(std::uint64_t digest, std::int64_t value) {
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that mixes every bit.
  std::uint64_t x = (digest ^ static_cast<std::uint64_t>(value)) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

UniformValues::UniformValues(const std::vector<UniformSize>& sizes,
                             const std::vector<shapes::Symbol>& slots)
    : table_(slots) {
  for (const UniformSize& size : sizes) slots_.push_back(table_.intern(size.expr));
}

std::uint64_t UniformValues::mixed_into(std::uint64_t digest,
                                        std::span<const std::int64_t> values) const {
  std::vector<std::int64_t> stack;
  for (const ExprSlot slot : slots_)
    digest = mixed(
        digest,
        table_.evaluate(slot, values, stack).value_or(std::numeric_limits<std::int64_t>::min()));
  return digest;
}

std::vector<std::int64_t> UniformValues::of(std::span<const std::int64_t> values) const {
  std::vector<std::int64_t> out, stack;
  for (const ExprSlot slot : slots_)
    out.push_back(
        table_.evaluate(slot, values, stack).value_or(std::numeric_limits<std::int64_t>::min()));
  return out;
}

std::string values_line(std::span<const std::int64_t> values) {
  return fmt::format("{}", fmt::join(values, " "));
}

namespace {

/// The numbers of each line of the rank table; no line is empty.
std::vector<std::vector<std::string>> numbers_of(const std::vector<RankValue>& rank_table) {
  std::vector<std::vector<std::string>> out;
  for (const RankValue& line : rank_table) {
    std::istringstream words(line.value);
    out.emplace_back();
    for (std::string word; words >> word;) out.back().push_back(word);
  }
  return out;
}

/// The table of the numbers at index `at` of all lines, by lowest rank.
std::vector<RankValue> column(const std::vector<RankValue>& rank_table,
                              const std::vector<std::vector<std::string>>& numbers,
                              std::size_t at) {
  std::vector<RankValue> out;
  for (std::size_t i = 0; i < rank_table.size(); ++i) {
    const std::string value = at < numbers[i].size() ? numbers[i][at] : "";
    const auto known =
        std::ranges::find_if(out, [&](const RankValue& group) { return group.value == value; });
    if (known == out.end())
      out.push_back({rank_table[i].ranks, value});
    else
      known->ranks.insert(rank_table[i].ranks);
  }
  return out;
}

}  // namespace

Status uniform_violation(const std::vector<UniformSize>& sizes, const shapes::Namer& namer,
                         std::string_view frame, const std::vector<RankValue>& rank_table) {
  const auto numbers = numbers_of(rank_table);
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    std::vector<RankValue> groups = column(rank_table, numbers, at);
    if (groups.size() < 2) continue;
    const UniformSize& size = sizes[at];
    if (size.where.file.starts_with(kKeyInput)) {
      const std::string key = size.where.file.substr(kKeyInput.size());
      return {
          Code::ConstraintViolation,
          fmt::format("{}: {} differs between ranks, and a Key is the same on all of them; make "
                      "it of one seed on every rank, or declare it as a RankKey",
                      frame, key),
          key, std::move(groups)};
    }
    const std::string name = size.expr.text(namer);
    const std::string_view advice =
        size.what == kKeyFold ? "fold it into a RankKey"
                              : "pad it to one size, or exchange rows with all_to_all_single";
    return {Code::ConstraintViolation,
            fmt::format("{}: {} differs between ranks, and {} at {} needs it to be the same on all "
                        "of them; {}",
                        frame, name, size.what, size.where.text(), advice),
            name, std::move(groups)};
  }
  return internal_error(
      fmt::format("{}: sizes that the ranks need alike differ, but their values do not; check "
                  "that all ranks run the same build",
                  frame));
}

}  // namespace lockstep::worker
