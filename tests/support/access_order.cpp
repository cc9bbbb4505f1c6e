#include "access_order.h"

#include <algorithm>

namespace lockstep {
namespace {

void merge(AccessOrder::Time& into, const AccessOrder::Time& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t s = 0; s < from.size(); ++s) into[s] = std::max(into[s], from[s]);
}

bool overlap(const AccessOrder::Access& a, const AccessOrder::Access& b) {
  return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

}  // namespace

int AccessOrder::add_stream() {
  now_.emplace_back();
  const auto count = now_.size();
  for (Time& time : now_) time.resize(count);
  return static_cast<int>(count) - 1;
}

bool AccessOrder::comes_before(const Done& done, const Time& time) const {
  const auto stream = static_cast<std::size_t>(done.stream);
  return stream < time.size() && done.time <= time[stream];
}

std::string AccessOrder::put(int stream, std::span<const Access> accesses) {
  Time& now = now_[static_cast<std::size_t>(stream)];
  merge(now, host_);
  const std::uint64_t mine = ++now[static_cast<std::size_t>(stream)];
  std::string found;
  for (const Access& access : accesses) {
    if (access.bytes == 0) continue;
    for (const Done& done : done_)
      if ((access.writes || done.access.writes) && overlap(access, done.access) &&
          !comes_before(done, now))
        found = "stream " + std::to_string(stream) + (access.writes ? " writes" : " reads") +
                " memory that stream " + std::to_string(done.stream) +
                (done.access.writes ? " writes" : " reads") + ", in no order";
    const auto same = std::ranges::find_if(done_, [&](const Done& done) {
      return done.stream == stream && done.access.at == access.at &&
             done.access.bytes == access.bytes && done.access.writes == access.writes;
    });
    if (same == done_.end())
      done_.push_back({access, stream, mine});
    else
      same->time = mine;
  }
  return found;
}

void AccessOrder::made(int stream, std::uint64_t at, std::size_t bytes) {
  const Access all{at, bytes, true};
  std::erase_if(done_, [&](const Done& done) { return overlap(done.access, all); });
  (void)put(stream, {&all, 1});
}

AccessOrder::Time AccessOrder::now(int stream) const {
  Time out = now_[static_cast<std::size_t>(stream)];
  merge(out, host_);
  return out;
}

void AccessOrder::follow(int stream, const Time& time) {
  merge(now_[static_cast<std::size_t>(stream)], time);
}

void AccessOrder::waited_for(int stream) {
  merge(host_, now(stream));
  std::erase_if(done_, [&](const Done& done) { return comes_before(done, host_); });
}

}  // namespace lockstep
