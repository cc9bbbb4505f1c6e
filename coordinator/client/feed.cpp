#include <utility>

#include <lockstep/coordinator/client/feed.h>

namespace lockstep::coordinator {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t ticks(Duration time) { return static_cast<std::uint64_t>(time.count()); }

}  // namespace

void Feed::count(const CallCounters& counters) {
  const std::array<std::uint64_t, 10> values{
      counters.reused,       counters.compiled,      counters.fallbacks,     counters.errors,
      counters.votes,        counters.exchanges,     ticks(counters.waited), ticks(counters.wire),
      ticks(counters.trace), ticks(counters.compile)};
  auto next = counters_.begin();
  for (const std::uint64_t value : values) (next++)->store(value, kRelaxed);
  RoundCounts rounds = counters.rounds;
  for (const std::uint64_t* number : rounds.numbers()) (next++)->store(*number, kRelaxed);
}

CallCounters Feed::counters() const {
  const auto value = [this](std::size_t i) { return counters_[i].load(kRelaxed); };
  const auto time = [&](std::size_t i) { return Duration{static_cast<Duration::rep>(value(i))}; };
  CallCounters out{value(0), value(1), value(2), value(3), value(4), value(5),
                   time(6),  time(7),  time(8),  time(9),  {}};
  std::size_t next = 10;
  for (std::uint64_t* number : out.rounds.numbers()) *number = value(next++);
  return out;
}

void Feed::tell(CallEvent event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() == kMostEvents) events_.pop_front();
  events_.push_back(std::move(event));
}

std::optional<CallEvent> Feed::take() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  CallEvent oldest = std::move(events_.front());
  events_.pop_front();
  return oldest;
}

void Feed::keep(GraphText graph) {
  if (graph.text.size() > kGraphTextBytes) graph.text.resize(kGraphTextBytes);
  const std::lock_guard lock(mutex_);
  if (graphs_.size() == kMostGraphs) graphs_.pop_front();
  graphs_.push_back(std::move(graph));
}

std::optional<GraphText> Feed::graph(const shapes::Fingerprint& graph) const {
  const std::lock_guard lock(mutex_);
  for (const GraphText& kept : graphs_)
    if (kept.graph == graph) return kept;
  return std::nullopt;
}

void Feed::configure(std::string text) {
  const std::lock_guard lock(mutex_);
  configuration_.text = std::move(text);
}

Configuration Feed::configuration() const {
  const std::lock_guard lock(mutex_);
  return configuration_;
}

}  // namespace lockstep::coordinator
