#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/coordinator/server/metrics.h>

namespace lockstep::coordinator {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

/// Writes metric families one after the other, with the samples of a family together.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Value>
  void sample(const Labels& labels, const Value& value, std::string_view suffix = {}) {
    out_ += fmt::format("{}{}", name_, suffix);
    char sign = '{';
    for (const auto& [name, text] : labels) {
      out_ += fmt::format("{}{}=\"", sign, name);
      append_escaped(text);
      out_ += '"';
      sign = ',';
    }
    out_ += fmt::format("{} {}\n", sign == '{' ? "" : "}", value);
  }
  /// `buckets` are not cumulative; the last one counts samples above all bounds.
  template <std::size_t N>
  void histogram(Labels labels, const std::array<double, N>& bounds,
                 const std::array<std::uint64_t, N + 1>& buckets, double sum) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i <= N; ++i) {
      below += buckets[i];
      const std::string bound = i < N ? fmt::format("{}", bounds[i]) : "+Inf";
      labels.emplace_back("le", bound);
      sample(labels, below, "_bucket");
      labels.pop_back();
    }
    sample(labels, sum, "_sum");
    sample(labels, below, "_count");
  }
  [[nodiscard]] std::string text() && { return std::move(out_); }

 private:
  void append_escaped(std::string_view text) {
    for (const char c : text) {
      if (c == '\\' || c == '"') out_ += '\\';
      if (c == '\n')
        out_ += "\\n";
      else
        out_ += c;
    }
  }
  std::string name_, out_;
};

/// The values of one job, computed once.
struct Figures {
  std::string_view id;
  const WatchedJob* job = nullptr;
  std::array<std::int64_t, 8> states{};
  CallCounters most;
  Duration straggler{0}, silence{0};
  Instant progress{0};
};
constexpr std::array<std::string_view, 8> kStates{"connected", "tracing", "compiling", "running",
                                                  "stuck",     "lost",    "finished",  "absent"};

std::size_t state_of(const WatchedJob& job, Rank rank, const RankSet& stuck) {
  const Member* member = job.membership.member(rank);
  if (member == nullptr) return 7;
  if (member->finished) return 6;
  if (!member->connection) return 5;
  if (stuck.contains(rank)) return 4;
  const Seen* seen = job.progress.seen(rank);
  if (seen == nullptr || seen->state.phase == Phase::Starting) return 0;
  if (seen->state.phase == Phase::Tracing) return 1;
  return seen->state.phase == Phase::Compiling || seen->state.phase == Phase::Loading ? 2 : 3;
}

void take_counters(CallCounters& most, const CallCounters& own) {
  for (const auto field : {&CallCounters::reused, &CallCounters::compiled, &CallCounters::fallbacks,
                           &CallCounters::errors})
    most.*field = std::max(most.*field, own.*field);
  for (const auto field : {&CallCounters::waited, &CallCounters::wire})
    most.*field = std::max(most.*field, own.*field);
  // Takes the maximum of each number by itself, so that no counter ever falls.
  const auto numbers = most.rounds.numbers();
  RoundCounts others = own.rounds;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    *numbers[i] = std::max(*numbers[i], *others.numbers()[i]);
}

Figures figures_of(std::string_view id, const WatchedJob& job, const Service& service,
                   Instant now) {
  Figures out{.id = id, .job = &job};
  RankSet stuck;
  for (const Finding& finding : service.diagnose(job, now))
    if (finding.kind == Finding::Kind::Stuck || finding.kind == Finding::Kind::Ring ||
        finding.kind == Finding::Kind::Hung || finding.kind == Finding::Kind::Silent)
      stuck.insert(finding.ranks);
  for (const Operation& operation : awaited_operations(job.membership, job.progress))
    if (!operation.not_in.empty()) out.straggler = std::max(out.straggler, now - operation.since);
  for (std::int32_t r = 0; r < job.membership.size(); ++r) {
    ++out.states[state_of(job, Rank{r}, stuck)];
    const Member* member = job.membership.member(Rank{r});
    if (member != nullptr && member->connection && !member->finished)
      out.silence = std::max(out.silence, now - member->heard);
    if (const Seen* seen = job.progress.seen(Rank{r})) {
      out.progress = std::max(out.progress, seen->state.progress);
      take_counters(out.most, seen->counters);
    }
  }
  return out;
}

void state_metrics(Exposition& out, const std::vector<Figures>& jobs, Instant now, WallTime wall) {
  out.family("lockstep_ranks", "gauge", "Ranks of a job by what they do.");
  for (const Figures& job : jobs)
    for (std::size_t i = 0; i < kStates.size(); ++i)
      out.sample({{"job", job.id}, {"state", kStates[i]}}, job.states[i]);
  out.family("lockstep_straggler_seconds", "gauge",
             "How long ranks have waited for others in the operation that is waited in longest.");
  for (const Figures& job : jobs) out.sample({{"job", job.id}}, seconds(job.straggler));
  out.family("lockstep_heartbeat_age_seconds_max", "gauge",
             "Time since the last word of the connected rank that is silent for longest.");
  for (const Figures& job : jobs) out.sample({{"job", job.id}}, seconds(job.silence));
  out.family("lockstep_last_progress_timestamp_seconds", "gauge",
             "When any rank last made progress, as Unix time; 0 where none has.");
  for (const Figures& job : jobs) {
    const double at = std::chrono::duration<double>(wall.time_since_epoch()).count();
    const bool any = job.progress != Instant{0};
    out.sample({{"job", job.id}},
               fmt::format("{:.3f}", any ? at - seconds(now - job.progress) : 0));
  }
}

void round_metrics(Exposition& out, const std::vector<Figures>& jobs) {
  out.family("lockstep_rounds_total", "counter",
             "Rounds of agreement, votes (guard) and exchanges (sizes), by how they ended.");
  constexpr std::array<std::string_view, 4> kEnds{"agree", "resolved", "diverged", "timeout"};
  for (const Figures& job : jobs)
    for (const auto& [kind, ends] :
         {std::pair{"guard", &RoundCounts::votes}, std::pair{"sizes", &RoundCounts::exchanges}})
      for (std::size_t i = 0; i < kEnds.size(); ++i)
        out.sample({{"job", job.id}, {"kind", kind}, {"result", kEnds[i]}},
                   (job.most.rounds.*ends)[RoundEnd(i)]);
  const auto spans = [&](std::string_view name, std::string_view help, SpanCounts RoundCounts::*of,
                         Duration CallCounters::*sum) {
    out.family(name, "histogram", help);
    for (const Figures& job : jobs) {
      const auto& buckets = (job.most.rounds.*of).buckets;
      out.histogram({{"job", job.id}}, SpanCounts::kBounds, buckets, seconds(job.most.*sum));
    }
  };
  spans("lockstep_round_wait_seconds", "Time of a vote until the first peer was there.",
        &RoundCounts::wait, &CallCounters::waited);
  spans("lockstep_round_wire_seconds", "The rest of a vote's time, and that of an exchange.",
        &RoundCounts::wire, &CallCounters::wire);
  out.family("lockstep_cache_requests_total", "counter", "Calls by what became of them.");
  for (const Figures& job : jobs)
    for (const auto& [result, count] :
         {std::pair{"hit", job.most.reused}, std::pair{"miss", job.most.compiled},
          std::pair{"fallback", job.most.fallbacks}, std::pair{"error", job.most.errors}})
      out.sample({{"job", job.id}, {"result", result}}, count);
}

void call_metrics(Exposition& out, const std::map<std::string, CallTally>& tallies) {
  out.family("lockstep_compile_seconds", "histogram",
             "Trace of the lowest rank and compile of the slowest, for each call that was not "
             "served from the cache.");
  for (const auto& [job, tally] : tallies)
    for (const auto& [outcome, histogram] : tally.compile)
      out.histogram({{"job", job}, {"outcome", outcome}}, CallTally::kBounds, histogram.buckets,
                    histogram.sum);
  out.family("lockstep_recompiles_total", "counter",
             "Calls that no entry of the cache fitted; forced where one did on some of the ranks.");
  for (const auto& [job, tally] : tallies)
    for (const auto& [kind, count] : tally.recompiles)
      out.sample(
          {{"job", job}, {"reason", kind.reason}, {"forced", kind.forced ? "true" : "false"}},
          count);
  out.family("lockstep_divergences_total", "counter",
             "Errors in which ranks differ, by what does.");
  for (const auto& [job, tally] : tallies)
    for (const auto& [what, count] : tally.divergences)
      out.sample({{"job", job}, {"field_kind", what}}, count);
}

/// Metrics per rank, only for small jobs: 10,000 labels would be too many for a metrics server.
void rank_metrics(Exposition& out, const std::vector<Figures>& jobs) {
  out.family("lockstep_rank_behind_total", "counter",
             "Reports that showed the rank behind an operation in which another waited; of jobs of "
             "up to 64 ranks.");
  for (const Figures& job : jobs) {
    if (job.job->membership.size() > kMostLabelledRanks) continue;
    for (std::int32_t r = 0; r < job.job->membership.size(); ++r)
      if (const Seen* seen = job.job->progress.seen(Rank{r}))
        out.sample({{"job", job.id}, {"rank", std::to_string(r)}}, seen->awaited);
  }
}

void own_metrics(Exposition& out, const RejectedFrames& rejected, const About& about) {
  using collectives::Refusal;
  out.family("lockstep_rejected_frames_total", "counter",
             "Connections refused, by what was wrong.");
  for (const auto& [name, which] :
       {std::pair{"magic", Refusal::Magic}, std::pair{"version", Refusal::Version},
        std::pair{"size", Refusal::Size}, std::pair{"mac", Refusal::Altered},
        std::pair{"replay", Refusal::Replay}, std::pair{"order", Refusal::Order},
        std::pair{"malformed", Refusal::Malformed}, std::pair{"token", Refusal::Token},
        std::pair{"encryption", Refusal::Encryption}})
    out.sample({{"reason", name}}, rejected[static_cast<std::size_t>(which)]);
  out.family("lockstep_build_info", "gauge", "The coordinator's version and that of its protocol.");
  out.sample(
      {{"version", about.version}, {"protocol", std::to_string(collectives::kProtocolVersion)}}, 1);
}

}  // namespace

std::string metrics_text(const Service& service, const EventLog& event_log,
                         const RejectedFrames& rejected, const About& about, Instant now,
                         WallTime wall) {
  std::vector<Figures> jobs;
  for (const auto& [id, job] : service.jobs()) jobs.push_back(figures_of(id, job, service, now));
  Exposition out;
  own_metrics(out, rejected, about);
  state_metrics(out, jobs, now, wall);
  round_metrics(out, jobs);
  call_metrics(out, event_log.tallies());
  rank_metrics(out, jobs);
  return std::move(out).text();
}

}  // namespace lockstep::coordinator
