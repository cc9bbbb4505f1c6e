// lockstep trace with real processes: against the same programs as jobs under mpirun, and what it
// says where there is no such job.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace lockstep::worker::trace_test {
namespace {

using Json = nlohmann::json;

const std::string kRank = TRACE_RANK;
const std::string kBin = BIN "/";

struct Traced {
  int code = -1;
  std::string out, err;
  Json json;  // of --json; null where there is no document
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The ranks of "0-2,7".
std::set<int> ranks_of(const std::string& text) {
  std::set<int> out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(',', at), text.size());
    const std::string run = text.substr(at, end - at);
    const std::size_t dash = run.find('-');
    const int first = std::stoi(run),
              last = dash == std::string::npos ? first : std::stoi(run.substr(dash + 1));
    for (int r = first; r <= last; ++r) out.insert(r);
    at = end + 1;
  }
  return out;
}

/// Traces of one test, whose processes are found by a variable that all of them have.
class Trace : public testing::Test {
 protected:
  /// `before`: what stands before the command, variables first.
  Traced run(const std::string& arguments, const std::string& before = {}) {
    const std::string out = folder_ / "out", err = folder_ / "err";
    const Launched ended = launch("env " + mark_ + " TMPDIR=" + (scratch_ / "") +
                                  " LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + before +
                                  " " LOCKSTEP " trace " + arguments + " >" + out + " 2>" + err);
    Traced traced{ended.exit_code, contents(out), contents(err), nullptr};
    traced.json = Json::parse(traced.out, nullptr, false);
    if (traced.json.is_discarded()) traced.json = nullptr;
    return traced;
  }
  Traced all(int ranks, const std::string& program, const std::string& before = {}) {
    return run("--of " + std::to_string(ranks) + " --all --json --calls 14 " + program, before);
  }
  Traced one(int rank, int ranks, const std::string& program) {
    return run("--of " + std::to_string(ranks) + " --rank " + std::to_string(rank) +
               " --json --calls 14 " + program);
  }
  ~Trace() override {
    EXPECT_EQ(processes_with(mark_), std::vector<std::string>{});
    EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "")) << "a folder is left behind";
  }
  Trace() = default;

  Folder folder_;

 private:
  Folder scratch_;
  std::string mark_ = "TRACE_TEST=" + std::to_string(::getpid());
};

/// The calls of one rank, in order.
std::vector<Json> calls_of(const Json& report, int rank) {
  std::vector<Json> out;
  for (const Json& call : report.at("calls"))
    if (ranks_of(call.at("ranks")).contains(rank)) out.push_back(call);
  return out;
}

/// How a rank ended: its element of "ends".
Json end_of(const Json& report, int rank) {
  for (const Json& end : report.at("ends"))
    if (ranks_of(end.at("ranks")).contains(rank)) return end;
  return nullptr;
}

#ifdef MPIRUN

/// A rank's record, without times.
std::vector<Json> record_of(const std::string& directory, int rank) {
  std::vector<Json> out;
  std::ifstream in(directory + "/rank-0000" + std::to_string(rank) + ".jsonl");
  for (std::string line; std::getline(in, line);) {
    out.push_back(Json::parse(line));
    out.back().erase("ns");
  }
  return out;
}

/// What the record says of each call that is in the report: graph and guards of what was traced.
void expect_as_recorded(const std::vector<Json>& calls, const std::vector<Json>& record) {
  std::size_t next = 0;
  Json key, trace;
  for (const Json& line : record) {
    const std::string event = line.value("event", "header");
    if (event == "call") key = line.at("key"), trace = nullptr;
    if (event == "trace") trace = line;
    if (event != "end" || next == calls.size()) continue;
    const Json& call = calls[next++];
    EXPECT_EQ(call.at("frame"), key.at("frame"));
    EXPECT_EQ(call.at("outcome"), line.at("outcome"));
    EXPECT_EQ(call.value("entry", -1), line.value("entry", -1));
    if (line.contains("error")) {
      EXPECT_EQ(call.at("error").at("message"), line.at("error").at("message"));
    }
    if (!trace.is_null() && !trace.contains("failure")) {
      EXPECT_EQ(call.at("graph"), trace.at("graph"));
    }
    if (call.at("outcome") != "compiled") continue;
    Json guards = trace.at("guards");
    for (Json& guard : guards) {
      guard["line"] =
          guard.at("file").get<std::string>() + ":" + std::to_string(guard.at("line").get<int>());
      guard.erase("file");
    }
    Json said = call.at("guards");
    std::erase_if(said.get_ref<Json::array_t&>(), [](const Json& g) { return g.contains("over"); });
    for (Json& guard : said) guard.erase("of");
    EXPECT_EQ(said, guards);
  }
  EXPECT_EQ(next, calls.size()) << "calls that the job did not make";
}

/// "wrong" goes on after its error: the job ends well, the command names what it found.
struct Program {
  std::string name, command;
  std::vector<int> sizes;
  bool to_the_end;  // the trace comes as far as the job
  int code = 0, job_code = code;
};
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

class TraceAndJob : public Trace, public testing::WithParamInterface<Program> {};
/// Programs in which all ranks make the same calls and have the same decisions.
class TraceAndDryRun : public TraceAndJob {};

// The record of the trace is the beginning of the job's, line by line: what each rank observed,
// every vote and exchange, decisions, graphs, guards and outcomes. What the command reports is what
// is recorded, and what a dry run of the job's record comes to.
TEST_P(TraceAndJob, FirstCallsAreThoseOfTheJob) {
  const Program& program = GetParam();
  for (const int n : program.sizes) {
    const std::string job = folder_ / ("job" + std::to_string(n));
    const std::string trace = folder_ / ("trace" + std::to_string(n));
    const Launched ran = launch_ranks(n, program.command, "LOCKSTEP_RECORD=" + job);
    ASSERT_EQ(ran.exit_code, program.job_code) << ran.output;
    const Traced traced = all(n, program.command, "LOCKSTEP_RECORD=" + trace);
    ASSERT_EQ(traced.code, program.code) << traced.err;
    ASSERT_EQ(traced.json.value("format", ""), "lockstep.trace/1") << traced.out;
    for (int r = 0; r < n; ++r) {
      std::vector<Json> expected = record_of(job, r);
      const std::vector<Json> seen = record_of(trace, r);
      const std::vector<Json> calls = calls_of(traced.json, r);
      ASSERT_LE(seen.size(), expected.size());
      EXPECT_GT(calls.size(), 0U);
      expect_as_recorded(calls, expected);
      if (program.to_the_end) {
        EXPECT_EQ(seen.size(), expected.size());
      }
      expected.resize(seen.size());
      EXPECT_EQ(seen, expected) << "rank " << r << " of " << n;
    }
  }
}

// Decisions and symbols are those of a dry run of the job's record, where that speaks for all
// ranks.
TEST_P(TraceAndDryRun, DecisionsAreThoseOfTheJobsRecord) {
  const Program& program = GetParam();
  const std::string job = folder_ / "job";
  const int n = program.sizes.back();
  ASSERT_EQ(launch_ranks(n, program.command, "LOCKSTEP_RECORD=" + job).exit_code, program.job_code);
  const Launched dry = launch(LOCKSTEP " dryrun --json " + job);
  const Json replayed = Json::parse(dry.output);
  const Traced traced = all(n, program.command);
  const std::vector<Json> calls = calls_of(traced.json, n - 1);
  ASSERT_GT(calls.size(), 0U);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Json& expected = replayed.at("calls").at(i);
    for (const char* key : {"frame", "outcome", "entry", "decisions", "symbols", "error"})
      EXPECT_EQ(calls[i].value(key, Json()), expected.value(key, Json()))
          << "call " << i << " " << key;
  }
}

std::string name_of(const testing::TestParamInfo<Program>& program) { return program.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Programs, TraceAndJob,
    testing::Values(Program{"calls", kRank + " calls", {1, 2, 4}, true},
                    Program{"limit", kRank + " limit", {2}, true},
                    Program{"captures", kRank + " captures", {1, 3}, true},
                    Program{"ahead", kRank + " ahead", {1, 4}, true},
                    Program{"pairs", kRank + " pairs", {2, 4}, true},
                    Program{"kinds", kRank + " kinds", {3}, true},
                    Program{"wrong", kRank + " wrong", {3}, true, 3, 0},
                    Program{"attached", kRank + " attached", {4}, true},
                    Program{"settings", kRank + " settings", {2}, true},
                    Program{"divergence", kBin + "divergence", {4}, true, 3},
                    Program{"group_any", kBin + "divergence --group-any", {1, 4}, false},
                    Program{"uneven_data", kBin + "uneven_data", {2, 4}, false},
                    Program{"groups", kBin + "groups", {4}, false},
                    Program{"prefetch", kBin + "prefetch 10", {2}, false},
                    Program{"moe_text", kBin + "moe_text --steps 1", {1, 2, 4}, false}),
    name_of);
INSTANTIATE_TEST_SUITE_P(Programs, TraceAndDryRun,
                         testing::Values(Program{"calls", kRank + " calls", {4}, true},
                                         Program{"limit", kRank + " limit", {2}, true},
                                         Program{"ahead", kRank + " ahead", {4}, true},
                                         Program{"wrong", kRank + " wrong", {3}, true, 3, 0},
                                         Program{"divergence", kBin + "divergence", {4}, true, 3},
                                         Program{"groups", kBin + "groups", {4}, false},
                                         Program{
                                             "moe_text", kBin + "moe_text --steps 1", {4}, false}),
                         name_of);

TEST_F(Trace, LibraryCallPrograms_AreToldThatTheyCannotBeTraced) {
  for (const std::string program : {"library_call", "plain_c"}) {
    const Traced traced = run("--of 2 --all " + kBin + program);
    EXPECT_EQ(traced.code, 2) << traced.err;
    EXPECT_EQ(traced.out, "");
    EXPECT_TRUE(contains(traced.err, "only programs with frames of job.h can be traced"))
        << traced.err;
  }
}

#endif

TEST_F(Trace, ProgramForGpus_NeedsNone) {
  const Traced gpu = all(2, kBin + "moe_text --steps 1 --device cuda");
  const Traced host = all(2, kBin + "moe_text --steps 1");
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(gpu.json.at("calls"), host.json.at("calls"));
}

TEST_F(Trace, Compiler_IsNotNeeded_AndTheCacheNotTouched) {
  const std::string cache = folder_ / "cache";
  const Traced traced = all(2, kRank + " calls",
                            "LOCKSTEP_CXX=no_such_compiler LOCKSTEP_JOB_ID=a_job "
                            "LOCKSTEP_CACHE_DIR=" +
                                cache);
  EXPECT_EQ(traced.code, 0) << traced.err;
  EXPECT_FALSE(std::filesystem::exists(cache));
}

TEST_F(Trace, Divergence_IsNamedAsTheJobNamesIt) {
  const Launched job = launch_met(4, kBin + "divergence", "LOCKSTEP_LOG=off");
  const Traced traced = run("--of 4 --all " + kBin + "divergence");
  EXPECT_EQ(traced.code, 3) << traced.err;
  const std::size_t at = job.output.find("lockstep: BRANCH_DIVERGENCE");
  ASSERT_NE(at, std::string::npos) << job.output;
  EXPECT_EQ(traced.err, job.output.substr(at, job.output.find('\n', at) + 1 - at));
}

TEST_F(Trace, OneRank_IsTheJobInWhichAllSeeItsSizes) {
  for (const char* mode : {" alike", " captures"}) {
    const Traced together = all(4, kRank + mode);
    ASSERT_EQ(together.code, 0) << together.err;
    EXPECT_EQ(together.json.at("assumes"), nullptr);
  }
  const Traced together = all(4, kRank + " alike");
  for (const int rank : {0, 3}) {
    const Traced alone = one(rank, 4, kRank + " alike");
    ASSERT_EQ(alone.code, 0) << alone.err;
    EXPECT_EQ(alone.json.at("assumes"),
              "decisions assume that all 4 ranks see the sizes of rank " + std::to_string(rank));
    EXPECT_EQ(alone.json.at("traced"), "rank " + std::to_string(rank));
    std::vector<Json> mine = calls_of(alone.json, rank), theirs = calls_of(together.json, rank);
    ASSERT_EQ(mine.size(), 7U);
    for (auto* calls : {&mine, &theirs})
      for (Json& call : *calls) call.erase("ranks");
    EXPECT_EQ(mine, theirs);
    Json graphs = alone.json.at("graphs"), all_graphs = together.json.at("graphs");
    for (Json* json : {&graphs, &all_graphs})
      for (Json& graph : *json) graph.erase("ranks");
    EXPECT_EQ(graphs, all_graphs);
  }
}

TEST_F(Trace, OneRankOfMany_HasItsNumber_ItsGroups_AndTheSizeOfTheJob) {
  const Traced many = one(4'000'000, 1 << 24, kBin + "divergence");
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(many.json.at("calls").at(0).at("decisions").at("x").at(0), 4'000'003);
  EXPECT_EQ(many.json.at("calls").size(), 3U);
  const Traced pairs = one(5, 8, kRank + " pairs");
  ASSERT_EQ(pairs.code, 0) << pairs.err;
  EXPECT_EQ(pairs.json.at("calls").size(), 9U);
  EXPECT_EQ(pairs.json.at("calls").at(0).at("group"), "pair");
  const Traced kinds = one(2, 3, kRank + " kinds");
  ASSERT_EQ(kinds.code, 0) << kinds.err;
  EXPECT_EQ(kinds.json.at("calls").size(), 12U);
}

TEST_F(Trace, Graphs_AreInTheDocument_AndPrintedWhereAskedFor) {
  const Traced traced = all(2, kRank + " calls");
  for (const Json& call : traced.json.at("calls")) {
    const auto& graphs = traced.json.at("graphs");
    const auto known = std::find_if(graphs.begin(), graphs.end(), [&](const Json& graph) {
      return graph.at("fingerprint") == call.at("graph");
    });
    ASSERT_NE(known, graphs.end());
    EXPECT_EQ(known->at("collectives"), call.at("collectives"));
    std::size_t all_reduces = 0;
    const std::string text = known->at("text");
    for (std::size_t at = 0; (at = text.find("= all_reduce(", at)) != std::string::npos; ++at)
      ++all_reduces;
    EXPECT_EQ(known->at("collectives"), all_reduces);
  }
  const std::string program = "--of 2 --all " + kRank + " alike";
  const std::string guard = "guard n >= 6   # trace_rank.cpp:";
  const Traced plain = run(program), graphs = run("--graph " + program);
  EXPECT_TRUE(contains(plain.out, guard)) << plain.out;
  EXPECT_FALSE(contains(plain.out, "graph step\n"));
  EXPECT_TRUE(contains(graphs.out, "graph step\n")) << graphs.out;
  EXPECT_TRUE(contains(graphs.out, plain.out.substr(0, plain.out.find("\n\n  ranks 0-1 came"))));
}

TEST_F(Trace, ReadValue_StopsThatRank_AndThoseThatWaitForIt) {
  for (int again = 0; again < 5; ++again) {
    const Traced traced = all(4, kRank + " lone");
    ASSERT_EQ(traced.code, 0) << traced.err;
    EXPECT_EQ(traced.err, "");
    for (int r = 0; r < 4; ++r) {
      const Json end = end_of(traced.json, r);
      EXPECT_EQ(end.at("end"), "stopped");
      EXPECT_EQ(end.at("calls"), 2) << "rank " << r;
      EXPECT_EQ(end.at("why"), r == 0 ? "output 'loss' of step has no value in a trace"
                                      : "waiting for rank 0, which has stopped");
    }
  }
  const Traced alone = run("--of 2 --rank 0 " + kRank + " lone");
  EXPECT_TRUE(contains(
      alone.out, "rank 0 stopped after 2 calls: output 'loss' of step has no value in a trace"))
      << alone.out;
}

TEST_F(Trace, SizeThatOnlyARunKnows_SaysSo_ReadOrPassedOn) {
  for (const std::string mode : {" unbacked", " passed"}) {
    const Traced traced = all(2, kRank + mode);
    ASSERT_EQ(traced.code, 0) << traced.err;
    const Json end = end_of(traced.json, 1);
    EXPECT_EQ(
        end.at("why"),
        "output 'rows' of pick has no size before the graph runs, and nothing runs in a trace");
    EXPECT_EQ(end.at("calls"), 1);
  }
}

TEST_F(Trace, NumbersOfSizesAndInputs_HaveTheirValues) {
  const Traced traced = one(0, 2, kRank + " numbers");
  ASSERT_EQ(traced.code, 0) << traced.err;
  EXPECT_EQ(traced.err, "twice 4, second 8\nmean next\n");
  EXPECT_EQ(end_of(traced.json, 0).at("why"), "output 'mean' of mean has no value in a trace");
  EXPECT_EQ(end_of(traced.json, 0).at("calls"), 2);
}

TEST_F(Trace, Calls_EndEachRankAfterSoMany) {
  for (const std::string mode : {" calls", " ahead", " pairs", " attached"}) {
    const Traced traced = run("--of 4 --all --calls 3 --json " + kRank + mode);
    ASSERT_EQ(traced.code, 0) << traced.err;
    ASSERT_EQ(traced.json.at("ends").size(), 1U) << traced.json.at("ends");
    EXPECT_EQ(traced.json.at("ends").at(0).at("why"),
              "as many calls as were asked for have been made");
    EXPECT_EQ(traced.json.at("ends").at(0).at("calls"), 3);
    EXPECT_EQ(traced.json.at("ends").at(0).at("ranks"), "0-3");
  }
  EXPECT_EQ(end_of(run("--of 2 --all --json " + kRank + " calls").json, 0).at("calls"), 8);
}

TEST_F(Trace, Json_IsOneDocument_AndWhatRanksPrintGoesElsewhere) {
  const Traced traced = run("--of 3 --all --json " + kRank + " numbers");
  EXPECT_EQ(std::count(traced.out.begin(), traced.out.end(), '\n'), 1);
  EXPECT_EQ(traced.json.at("format"), "lockstep.trace/1");
  EXPECT_EQ(traced.json.at("world_size"), 3);
  EXPECT_EQ(traced.json.at("arguments"), Json({"numbers"}));
  for (int r = 0; r < 3; ++r)
    EXPECT_TRUE(contains(traced.err, "[rank " + std::to_string(r) + "] twice 4, second 8\n"))
        << traced.err;
}

TEST_F(Trace, OtherFailures_AreSaidWithTheirRank) {
  const Traced own = all(2, kRank + " own");
  EXPECT_EQ(own.code, 9);
  EXPECT_EQ(own.err, "lockstep: ranks 0-1 of " + kRank + " ended with exit code 9.\n");
  EXPECT_EQ(end_of(own.json, 0).at("end"), "failed");
  const Traced thrown = all(3, kRank + " throws");
  EXPECT_EQ(thrown.code, 3);
  EXPECT_EQ(thrown.json.at("error").at("code"), "GONE");
  EXPECT_TRUE(contains(thrown.err, "rank 1 left the job: the disk is full")) << thrown.err;
  const Traced other = all(3, kRank + " other");
  EXPECT_EQ(other.code, 3);
  EXPECT_EQ(other.json.at("error").at("code"), "FRAME_MISMATCH");
  EXPECT_TRUE(contains(other.err, "rank 1: settle")) << other.err;
}

TEST_F(Trace, KilledRank_IsFive_AndTheOthersNameIt) {
  const Traced killed = all(4, kRank + " killed");
  EXPECT_EQ(killed.code, 5);
  EXPECT_TRUE(contains(killed.err, "lockstep: rank 1 was ended by signal 9 (Killed).\n"));
  EXPECT_TRUE(contains(killed.err, "lockstep: RANK_LOST: Rank 1 ended")) << killed.err;
  EXPECT_EQ(end_of(killed.json, 1).at("end"), "killed");
  EXPECT_EQ(end_of(killed.json, 0).at("exit_code"), 5);
}

TEST_F(Trace, RankThatMakesNoJob_EndsTheOthers) {
  const Traced traced =
      run("--of 3 --all sh -c '[ $LOCKSTEP_RANK != 1 ] || exit 4; exec " + kRank + " calls'");
  EXPECT_EQ(traced.code, 4);
  EXPECT_TRUE(contains(traced.err, "rank 1 of ")) << traced.err;
  EXPECT_TRUE(contains(traced.err, "ended without making the job")) << traced.err;
}

TEST_F(Trace, NoJobAtAll_IsTwo_AndNothingOnStdout) {
  for (const auto& [program, code] :
       std::map<std::string, std::string>{{"true", ""}, {"false", " (exit code 1)"}}) {
    const Traced traced = run("--of 2 --all --json " + program);
    EXPECT_EQ(traced.code, 2);
    EXPECT_EQ(traced.out, "");
    EXPECT_TRUE(contains(traced.err, "ended without making a job" + code)) << traced.err;
  }
  const Traced waits = run("--of 1 --all sh -c 'sleep 8'", "LOCKSTEP_DEADLINE_SECONDS=1");
  EXPECT_TRUE(contains(waits.err, "after 1 s no rank has made a job")) << waits.err;
}

TEST_F(Trace, ToldToEnd_TellsTheRanks_AndIsItsExitCode) {
  struct Case {
    std::string signal;
    int code;
  };
  for (const auto& [signal, code] : std::vector<Case>{{"INT", 130}, {"TERM", 143}}) {
    const Traced traced =
        all(3, kRank + " idle", "timeout --foreground --preserve-status -s " + signal + " 8");
    EXPECT_EQ(traced.code, code) << traced.err;
    EXPECT_TRUE(contains(traced.err, "[rank 0] idle")) << traced.err;
    EXPECT_TRUE(contains(traced.err, "the trace was told to end")) << traced.err;
    EXPECT_EQ(traced.json.at("calls").size(), 2U) << "what was traced by then is reported";
  }
}

TEST_F(Trace, KilledCommand_LeavesNoRank) {
  const Launched killed =
      launch("env TRACE_TEST=" + std::to_string(::getpid()) + " TMPDIR=" + (folder_ / "") +
             " timeout --foreground -s KILL 8 " LOCKSTEP " trace --of 3 --all " + kRank + " idle");
  EXPECT_TRUE(contains(killed.output, "[rank 2] idle")) << killed.output;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

TEST_F(Trace, ProgramThatDoesNotListen_IsEndedAllTheSame) {
  const Traced traced = run("--of 2 --all sh -c 'trap \"\" TERM; sleep 60 & wait; sleep 60'",
                            "timeout --foreground --preserve-status -s TERM 1");
  EXPECT_EQ(traced.code, 143) << traced.err;
}

TEST_F(Trace, WrongUse_IsSaidInOneSentence) {
  struct Case {
    std::string arguments, said;
  };
  for (const auto& [arguments, said] :
       std::vector<Case>{{"", "it is not said how many ranks"},
                         {"--all true", "it is not said how many ranks"},
                         {"--of 0 --all true", "--of 0 is no number of ranks"},
                         {"--of 99999999 --rank 0 true", "--of 99999999 is no number of ranks"},
                         {"--of 257 --all true", "take fewer, or --rank R"},
                         {"--of two --all true", "--of"},
                         {"--of 2 true", "give one of --all and --rank R"},
                         {"--of 2 --all --rank 1 true", "give one of --all and --rank R"},
                         {"--of 2 --rank 2 true", "--rank 2 is no rank of 2"},
                         {"--of 2 --rank -1 true", "--rank -1 is no rank of 2"},
                         {"--of 2 --all", "there is no program to trace"},
                         {"--of 2 --all --calls 0 true", "--calls"},
                         {"--of 2 --all --loud true", "there is no option --loud"},
                         {"--of 2 --all no_such_program", "there is no program no_such_program"},
                         {"--of 2 --all /etc/passwd", "there is no program /etc/passwd"}}) {
    const Traced traced = run(arguments);
    EXPECT_EQ(traced.code, 2) << arguments;
    EXPECT_EQ(traced.out, "") << arguments;
    EXPECT_TRUE(contains(traced.err, said)) << traced.err;
    EXPECT_EQ(std::count(traced.err.begin(), traced.err.end(), '\n'), 1) << traced.err;
  }
  EXPECT_TRUE(contains(run("--help").out, "PROGRAM [ARGUMENT...]"));
}

}  // namespace
}  // namespace lockstep::worker::trace_test
