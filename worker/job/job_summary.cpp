#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/job/job_summary.h>

namespace lockstep::worker {

const char* const JobTimes::kNames[kCount] = {"vote: waiting for peers",
                                              "vote: wire",
                                              "exchange",
                                              "trace",
                                              "compile",
                                              "run: kernels",
                                              "run: matrix products",
                                              "run: collectives",
                                              "(votes within runs)",
                                              "total"};

JobTimes JobTimes::of(const JobContext& job, const CallTimes& calls, Duration total) {
  const Duration all[kCount] = {calls.vote_wait,  calls.vote - calls.vote_wait,
                                calls.exchange,   calls.trace,
                                calls.compile,    job.run.kernels,
                                job.run.products, job.run.collectives,
                                job.run.settling, total};
  JobTimes times;
  for (int i = 0; i < kCount; ++i) times.seconds[i] = std::chrono::duration<double>(all[i]).count();
  return times;
}

shapes::Fingerprint program_fingerprint(const std::vector<FrameCounts>& frames) {
  shapes::FingerprintBuilder builder;
  for (const FrameCounts& frame : frames) {
    if (!frame.shared || frame.graphs.empty()) continue;
    builder.add(frame.frame);
    builder.add(static_cast<std::int64_t>(frame.graphs.size()));
    for (const shapes::Fingerprint& graph : frame.graphs) builder.add(graph);
  }
  return builder.finish();
}

namespace {

/// Maximum number of rows of the table; a job may have a group for every few of its ranks.
constexpr std::size_t kMostRows = 40;

/// Number of digits written before each line. They keep a rank's lines in the order of its frames.
constexpr std::size_t kPlaceDigits = 6;

std::string placed(std::size_t place, const std::string& line) {
  return fmt::format("{:0{}}{}", place, kPlaceDigits, line);
}

std::string row_text(const FrameCounts& f) {
  const std::string name = f.group.empty() ? f.frame : fmt::format("{} ({})", f.frame, f.group);
  return fmt::format("{:<24}{:>8}{:>10}{:>8}{:>10}{:>8}", name, f.calls, f.compiled, f.reused,
                     f.fallbacks, f.errors);
}

Bytes payload_of(const std::vector<RankValue>& lines) {
  Bytes all = rank_table_payload(RankSet{}, std::nullopt);
  for (const RankValue& line : lines)
    all = join_rank_tables(all, rank_table_payload(line.ranks, line.value));
  return all;
}

/// The lines in a payload, by lowest rank, then by the place of the frame.
std::vector<RankValue> lines_in(const Bytes& payload) {
  std::vector<RankValue> lines = rank_table_values(payload);
  std::ranges::stable_sort(lines, [](const RankValue& a, const RankValue& b) {
    return std::pair(a.ranks.lowest(), a.value) < std::pair(b.ranks.lowest(), b.value);
  });
  for (RankValue& line : lines) line.value.erase(0, kPlaceDigits);
  return lines;
}

/// The ranks that have a line; empty if all have it.
std::string ranks_note(int ranks, const RankSet& of) {
  if (static_cast<int>(of.size()) == ranks) return "";
  return "  " + of.phrase();
}

std::string lines_text(int ranks, const std::vector<RankValue>& lines) {
  std::string out;
  const std::size_t shown = std::min(lines.size(), kMostRows);
  for (const RankValue& line : std::span(lines).first(shown))
    out += fmt::format("  {}{}\n", line.value, ranks_note(ranks, line.ranks));
  if (shown < lines.size()) out += fmt::format("  … and {} more\n", lines.size() - shown);
  return out;
}

}  // namespace

FrameLines frame_lines(Rank self, const std::vector<FrameCounts>& frames) {
  FrameLines out;
  std::map<std::string, std::size_t> places;  // of the next frame, by group
  for (const FrameCounts& f : frames) {
    const std::size_t place = places[f.group]++;
    if (f.alone && self.value != 0) continue;
    out.rows.push_back({RankSet::of(self), placed(place, row_text(f))});
    for (const std::string& advice : f.advice)
      out.advice.push_back(
          {RankSet::of(self), placed(place, fmt::format("{}: {}", f.frame, advice))});
  }
  return out;
}

Result<FrameLines> gather(collectives::Communicator& all, const FrameLines& mine) {
  FrameLines out;
  for (const auto lines : {&FrameLines::rows, &FrameLines::advice}) {
    collectives::TreeRound round(all.rank(), all.size(), payload_of(mine.*lines), join_rank_tables,
                                 all.hosts());
    if (auto done = all.run(round); !done) return done.error();
    out.*lines = lines_in(round.result());
  }
  return out;
}

std::string summary_text(int ranks, const FrameLines& lines, const std::vector<FrameCounts>& frames,
                         const CallTimes& calls, const JobTimes& least, const JobTimes& most,
                         const BuildCost& built) {
  std::string out = fmt::format("\nlockstep: {} rank{}\n", ranks, ranks == 1 ? "" : "s");
  out += fmt::format("  {:<24}{:>8}{:>10}{:>8}{:>10}{:>8}\n", "frame", "calls", "compiles",
                     "reused", "fallback", "errors");
  out += lines_text(ranks, lines.rows);
  std::uint64_t compiled = 0, interpreted = 0;
  for (const FrameCounts& f : frames) {
    compiled += f.nodes_compiled;
    interpreted += f.nodes_interpreted;
  }
  out += fmt::format(
      "  rounds: {} votes, {} with payloads; compiler children of rank 0: {}, {:.2f} s of CPU\n",
      calls.votes, calls.exchanges, built.compiles,
      std::chrono::duration<double>(built.cpu).count());
  out += fmt::format("  {:<24}{:>12}{:>12}\n", "seconds", "least rank", "most");
  for (int i = 0; i < JobTimes::kCount; ++i)
    out += fmt::format("  {:<24}{:>12.3f}{:>12.3f}\n", JobTimes::kNames[i], least.seconds[i],
                       most.seconds[i]);
  out += fmt::format("  nodes run compiled {}, interpreted {}\n", compiled, interpreted);
  out += lines_text(ranks, lines.advice);
  out += fmt::format("  all ranks ran {}\n", program_fingerprint(frames).text());
  return out;
}

}  // namespace lockstep::worker
