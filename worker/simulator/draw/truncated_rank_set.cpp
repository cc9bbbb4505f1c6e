#include <fmt/format.h>

#include <lockstep/worker/simulator/draw/truncated_rank_set.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kRuns = 32;

}  // namespace

void TruncatedRankSet::add(const RankSet& ranks) {
  count_ += ranks.size();
  for (const RankSet::Run& run : ranks.runs()) {
    if (named_.runs().size() >= kRuns && named_.runs().back().last + 1 != run.first) break;
    named_.insert(run);
  }
}

std::string TruncatedRankSet::text() const {
  std::string out = count_ == 1 ? "rank " : "ranks ";
  for (const char c : named_.text()) {
    out += c;
    if (c == ',') out += ' ';
  }
  if (named_.size() < count_) out += fmt::format(", … ({})", count_);
  return out;
}

}  // namespace lockstep::worker::simulator
