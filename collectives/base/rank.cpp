#include <algorithm>

#include <lockstep/collectives/base/rank.h>

namespace lockstep {

RankSet RankSet::of(Rank rank) { return range(rank, rank); }

RankSet RankSet::range(Rank first, Rank last) {
  RankSet set;
  set.runs_.push_back({first.value, last.value});
  return set;
}

RankSet RankSet::all(int size) { return size > 0 ? range({0}, {size - 1}) : RankSet{}; }

void RankSet::insert(Run run) {
  // The first run that overlaps or touches `run` is the first whose last reaches run.first - 1.
  auto begin = std::lower_bound(runs_.begin(), runs_.end(), run.first,
                                [](const Run& r, std::int32_t v) { return r.last + 1 < v; });
  auto end = begin;
  while (end != runs_.end() && end->first <= run.last + 1) {
    run.first = std::min(run.first, end->first);
    run.last = std::max(run.last, end->last);
    ++end;
  }
  begin = runs_.erase(begin, end);
  runs_.insert(begin, run);
}

void RankSet::insert(const RankSet& other) {
  for (const Run& run : other.runs_) insert(run);
}

std::int64_t RankSet::size() const {
  std::int64_t n = 0;
  for (const Run& run : runs_) n += std::int64_t{run.last} - run.first + 1;
  return n;
}

bool RankSet::contains(Rank rank) const {
  auto it = std::lower_bound(runs_.begin(), runs_.end(), rank.value,
                             [](const Run& r, std::int32_t v) { return r.last < v; });
  return it != runs_.end() && it->first <= rank.value;
}

RankSet RankSet::minus(const RankSet& other) const {
  RankSet out;
  for (Run run : runs_) {
    for (const Run& hole : other.runs_) {
      if (hole.last < run.first) continue;
      if (hole.first > run.last) break;
      if (hole.first > run.first) out.insert({run.first, hole.first - 1});
      run.first = hole.last + 1;
      if (run.first > run.last) break;
    }
    if (run.first <= run.last) out.insert(run);
  }
  return out;
}

std::string RankSet::phrase() const { return (size() == 1 ? "rank " : "ranks ") + text(); }

std::string RankSet::text() const {
  std::string out;
  for (const Run& run : runs_) {
    if (!out.empty()) out += ',';
    out += std::to_string(run.first);
    if (run.last > run.first) out += '-' + std::to_string(run.last);
  }
  return out;
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

}  // namespace lockstep
