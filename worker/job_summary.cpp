#include <fmt/format.h>

#include <lockstep/worker/job_summary.h>

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

std::string summary_text(int ranks, const std::vector<FrameCounts>& frames, const CallTimes& calls,
                         const JobTimes& least, const JobTimes& most, const BuildCost& built) {
  std::string out = fmt::format("\nlockstep: {} rank{}\n", ranks, ranks == 1 ? "" : "s");
  out += fmt::format("  {:<24}{:>8}{:>10}{:>8}{:>10}{:>8}\n", "frame", "calls", "compiles",
                     "reused", "fallback", "errors");
  std::uint64_t compiled = 0, interpreted = 0;
  for (const FrameCounts& f : frames) {
    out += fmt::format("  {:<24}{:>8}{:>10}{:>8}{:>10}{:>8}\n", f.frame, f.calls, f.compiled,
                       f.reused, f.fallbacks, f.errors);
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
  for (const FrameCounts& f : frames)
    for (const std::string& advice : f.advice) out += fmt::format("  {}: {}\n", f.frame, advice);
  out += fmt::format("  all ranks ran {}\n", program_fingerprint(frames).text());
  return out;
}

}  // namespace lockstep::worker
