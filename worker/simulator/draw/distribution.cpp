#include <algorithm>
#include <bit>
#include <cmath>

#include <lockstep/worker/simulator/draw/distribution.h>
#include <lockstep/worker/simulator/draw/portable_math.h>

namespace lockstep::worker::simulator {
namespace {

constexpr double kReach = 8.3;  // reach of a table, in deviations; the range of normal_below
__extension__ using Wide = unsigned __int128;

/// Returns the number below which `share` of all 64-bit numbers lie.
std::uint64_t cut(double share) {
  if (share >= 1) return UINT64_MAX;
  return static_cast<std::uint64_t>(std::max(share, 0.0) * 0x1p53) << 11;
}

/// Returns k^-exponent for each k from 1 to count, and their sum.
std::pair<std::vector<double>, double> zipf_weights(double exponent, std::int64_t count) {
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t k = 1; k <= count; ++k) {
    weights.push_back(exponential(-exponent * logarithm(static_cast<double>(k))));
    sum += weights.back();
  }
  return {std::move(weights), sum};
}

/// Returns a real number as an integer within the bounds.
std::int64_t within(double value, Bounds bounds) {
  if (value <= static_cast<double>(bounds.low)) return bounds.low;
  if (value >= static_cast<double>(bounds.high)) return bounds.high;
  return static_cast<std::int64_t>(value);
}

}  // namespace

Distribution Distribution::uniform(std::int64_t low, std::int64_t high) {
  Distribution out;
  out.low_ = low;
  out.span_ = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return out;
}

Distribution Distribution::choice(std::vector<std::int64_t> values) {
  Distribution out;
  out.kind_ = Kind::Choice;
  out.list_values(std::move(values));
  return out;
}

Distribution Distribution::histogram(const std::vector<Bin>& bins) {
  Distribution out;
  out.kind_ = Kind::Table;
  std::uint64_t sum = 0, so_far = 0;
  std::vector<std::int64_t> values;
  for (const Bin& bin : bins) sum += static_cast<std::uint64_t>(bin.weight);
  for (const Bin& bin : bins) {
    if (bin.weight == 0) continue;
    values.push_back(bin.value);
    so_far += static_cast<std::uint64_t>(bin.weight);
    if (so_far < sum) out.cuts_.push_back(static_cast<std::uint64_t>((Wide{so_far} << 64) / sum));
  }
  out.list_values(std::move(values));
  out.make_guide();
  return out;
}

template <class Below>
std::optional<Distribution> Distribution::table(double reach_low, double reach_high, Bounds bounds,
                                                Below below) {
  Distribution out;
  out.kind_ = Kind::Table;
  out.low_ = within(std::floor(reach_low), bounds);
  const std::int64_t high = within(std::ceil(reach_high), bounds);
  if (high - out.low_ >= kMaxTable) return std::nullopt;
  for (std::int64_t v = out.low_; v < high; ++v)
    out.cuts_.push_back(cut(below(static_cast<double>(v) + 0.5)));
  out.make_guide();
  return out;
}

std::optional<Distribution> Distribution::normal(double mean, double deviation, Bounds bounds) {
  return table(mean - kReach * deviation, mean + kReach * deviation, bounds,
               [&](double v) { return normal_below((v - mean) / deviation); });
}

std::optional<Distribution> Distribution::lognormal(double median, double sigma, Bounds bounds) {
  const double least = median * exponential(-kReach * sigma);
  const double most = std::min(median * exponential(kReach * sigma), 16 * kMaxMoment);
  return table(least, most, bounds,
               [&](double v) { return v <= 0 ? 0 : normal_below(logarithm(v / median) / sigma); });
}

Distribution Distribution::zipf(double exponent, std::int64_t count) {
  const auto [weights, sum] = zipf_weights(exponent, count);
  Distribution out;
  out.kind_ = Kind::Table;
  out.low_ = 1;
  double so_far = 0;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    so_far += weights[i];
    out.cuts_.push_back(cut(so_far / sum));
  }
  out.make_guide();
  return out;
}

Distribution Distribution::zipf_frequency(double exponent, std::int64_t count, std::int64_t total) {
  const auto [weights, sum] = zipf_weights(exponent, count);
  std::vector<std::int64_t> frequencies;
  for (const double weight : weights)
    frequencies.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<double>(total) * weight / sum)));
  return choice(std::move(frequencies));
}

Distribution Distribution::clamped(Bounds bounds) const {
  Distribution out = *this;
  out.bounds_ = bounds;
  return out;
}

// The guide has about as many entries as the table has values, at most 65,536. So a draw takes one
// or two steps on average, and about eight in the largest table.
void Distribution::make_guide() {
  const std::size_t entries = std::bit_ceil(std::clamp<std::size_t>(cuts_.size(), 2, 1 << 16));
  guide_shift_ = 64 - std::countr_zero(entries);
  std::uint32_t value = 0;
  for (std::uint64_t first = 0; first < entries; ++first) {
    while (value < cuts_.size() && cuts_[value] <= first << guide_shift_) ++value;
    guide_.push_back(value);
  }
}

void Distribution::list_values(std::vector<std::int64_t> values) {
  values_ = std::move(values);
  const auto [least, greatest] = std::minmax_element(values_.begin(), values_.end());
  of_values_ = {*least, *greatest};
}

Bounds Distribution::reach() const {
  Bounds out = of_values_;
  if (values_.empty()) {
    const std::uint64_t span = kind_ == Kind::Uniform ? span_ : cuts_.size();
    out = {low_, static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + span)};
  }
  return {std::clamp(out.low, bounds_.low, bounds_.high),
          std::clamp(out.high, bounds_.low, bounds_.high)};
}

std::optional<Bounds> Distribution::as_uniform() const {
  if (kind_ != Kind::Uniform || bounds_ != Bounds{}) return std::nullopt;
  const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + span_);
  return Bounds{low_, high};
}

std::int64_t Distribution::at(std::uint64_t random) const {
  std::int64_t value = 0;
  if (kind_ == Kind::Uniform) {
    const std::uint64_t offset = span_ == UINT64_MAX ? random : random % (span_ + 1);
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(low_) + offset);
  } else if (kind_ == Kind::Choice) {
    value = values_[random % values_.size()];
  } else {
    std::size_t i = guide_[random >> guide_shift_];
    while (i < cuts_.size() && cuts_[i] <= random) ++i;
    value = values_.empty() ? low_ + static_cast<std::int64_t>(i) : values_[i];
  }
  return std::clamp(value, bounds_.low, bounds_.high);
}

}  // namespace lockstep::worker::simulator
