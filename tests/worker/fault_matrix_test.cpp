// The matrix of faults: real jobs with compiled frames and data collectives under mpirun at 2, 4
// and 8 ranks, of which one goes wrong at a chosen moment. Each ends or goes on as the table in
// collectives/README.md says, in bounded time, and leaves no process and no shared memory behind.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/worker/simulator/cluster/fault_report.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::fault_matrix_test {
namespace {

constexpr int kCalls = 8;

/// One row of the table. In texts, "{}" is the rank that goes wrong.
struct Cell {
  std::string name, fault, moment;
  std::vector<std::string> said;  // each at least once
  std::vector<int> exit_codes;    // of mpirun; more than one where processes race, see the README
  double seconds = 20;            // at most, on a machine that is busy otherwise
  /// What stands in for the compiler of rank 0, before it goes on to compile.
  std::string compiler;
  enum class Folder { None, Cache, Record } folder = Folder::None;  // is FOLDER of the program
};

void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name; }

const std::string kLost = "lockstep: RANK_LOST: Rank {} ended without finishing the job";
const std::string kSuspended = "lockstep: STUCK: Rank {} is suspended";
const std::vector<int> kKilled{137, 5};  // the killed rank's, or a peer's that was seen first
const std::vector<int> kLeft{5, 1};      // mpirun's own code for an exit without MPI_Finalize is 1

/// The first compilation after the faulty call began, on rank 0 alone.
std::string on_rank_0(const std::string& command) {
  return "case \"$OMPI_COMM_WORLD_RANK $*\" in 0*\" -o \"*) " + command + ";; esac\n";
}

const std::vector<Cell> kCells{
    {"KilledBetweenCalls", "kill", "call", {kLost, "its process ended"}, kKilled},
    {"KilledInAVote", "kill", "vote", {kLost, "running, last event: call 0 of late_step"}, kKilled},
    {"KilledInTheTrace",
     "kill",
     "trace",
     {kLost, "tracing (lease valid), last event: call"},
     kKilled},
    {"KilledInACompile",
     "none",
     "none",
     {kLost, "builds unit 0"},
     kKilled,
     15,
     on_rank_0("kill -9 $PPID")},
    {"KilledInACollective", "kill", "collective", {kLost, "(all_reduce)"}, kKilled},

    {"FailureMode18_StoppedBetweenCalls", "stop", "call", {kSuspended, "(vote) for 4 s"}, {4}, 25},
    {"StoppedInAVote", "stop", "vote", {kSuspended, "for 4 s while rank"}, {4}, 25},
    {"StoppedInACollective", "stop", "collective", {kSuspended, "(all_reduce) for 4 s"}, {4}, 25},
    {"PausedInAVote", "pause", "vote", {}, {0}},
    {"PausedInTheTrace", "pause", "trace", {}, {0}},
    {"PausedInACollective", "pause", "collective", {}, {0}},
    {"FailureMode15_CompilesLongerThanTheDeadline",
     "none",
     "none",
     {},
     {0},
     30,
     on_rank_0("mkdir $0.once 2>/dev/null && sleep 7")},

    {"ExitsInAVote", "exit", "vote", {kLost}, kLeft},
    {"ExitsInACollective", "exit", "collective", {kLost}, kLeft},
    {"FinishesEarly",
     "finish",
     "call",
     {"lockstep: FRAME_MISMATCH: the ranks met in different rounds", "rank {}: finish"},
     {3}},

    {"ThrowsInTheTrace",
     "throw",
     "trace",
     {"TRACE_ERROR: late_step: failed on rank {}: ", "threw: the file of batch 5 is gone"},
     {0}},
    {"ThrowsBetweenCalls",
     "throw",
     "call",
     {"lockstep: GONE: rank {} failed before call ",
      "rank {} left the job: the file of batch 5 is gone"},
     {3}},

    {"ToldToEnd",
     "term",
     "collective",
     {"lockstep: GONE: Rank {} was told to end (SIGTERM) while it waits in ", "(all_reduce)"},
     {143}},

    {"CacheDiskIsFull",
     "full",
     "start",
     {"lockstep: rank {}: cannot write a file in the artifact directory ",
      "No space left on device"},
     {0},
     20,
     "",
     Cell::Folder::Cache},
    {"FailureMode06_CacheIsReadOnly",
     "read_only",
     "start",
     {"lockstep: rank {}: cannot create a file in the artifact directory ",
      "Read-only file system"},
     {0},
     20,
     "",
     Cell::Folder::Cache},
    {"RecordDiskIsFullAtStart",
     "full",
     "start",
     {"lockstep: ENVIRONMENT: rank {} failed before start", "the disk takes no record"},
     {7},
     15,
     "",
     Cell::Folder::Record},
    {"RecordDiskFillsUp",
     "full",
     "call",
     {"lockstep: rank {}: ", "the record ends here, the disk takes no more"},
     {0},
     15,
     "",
     Cell::Folder::Record},
    {"FailureMode13_CompilerDiskIsFull",
     "none",
     "none",
     {"lockstep: rank 0: leaves unit 0 of 1 to the other ranks"},
     {0},
     15,
     on_rank_0("ulimit -f 0")},
    {"FailureMode14_CompilerDies",
     "none",
     "none",
     {"lockstep: rank 0: leaves unit 0 of 1 to the other ranks", "was ended by signal 9"},
     {0},
     15,
     on_rank_0("kill -9 $$")},
    {"FailureMode16_HangsBetweenCalls",
     "hang",
     "call",
     {"lockstep: STUCK: Rank {} did not come to operation ", "(vote) and made no progress for 4 s"},
     {4},
     25},
    {"FailureMode17_HangsInTheTraceWhileItsWatchdogLives",
     "hang",
     "trace",
     {"lockstep: STUCK: Rank {} did not come to operation ", "tracing, last event"},
     {4},
     40},  // after five deadlines
    // Regression: a user's function that took longer than the deadline was taken for stuck.
    {"TracesLongerThanTheDeadline", "late", "trace", {}, {0}, 30},
    {"FailureMode26_StartsLaterThanTheDeadline", "late", "start", {}, {0}, 30},
    {"FailureMode27_CollectiveFails",
     "mpi_error",
     "collective",
     {"lockstep: INTERNAL: MPI, in all_reduce", "lockstep: reported by rank {} "},
     {7}},
    {"CompilerIsMissing",
     "no_compiler",
     "none",
     {"lockstep: rank {}: takes the kernels that other ranks build", "/nonexistent/c++"},
     {0}},
    {"CoordinationIsOff",
     "uncoordinated",
     "none",
     {"lockstep: CONFIG_MISMATCH: Ranks were started with different values of "
      "LOCKSTEP_COORDINATION",
      "rank {}: off"},
     {3}},
};

/// In seconds. Long where the job is to end before that or nothing is to be waited for, so that a
/// rank of a busy machine is not blamed.
int deadline_of(const Cell& cell) {
  if (cell.fault == "stop" || cell.fault == "hang") return 4;
  if (cell.fault == "pause") return 6;
  const bool longer = cell.fault == "late" || cell.compiler.find("sleep") != std::string::npos;
  return longer ? 5 : 30;
}

std::string named(std::string text, int rank) {
  if (const auto at = text.find("{}"); at != std::string::npos)
    text.replace(at, 2, std::to_string(rank));
  return text;
}

/// The processes that carry `mark` in their environment.
std::vector<std::string> processes_of(const std::string& mark) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string environment = contents(entry.path() / "environ");
    if (environment.find(mark) != std::string::npos) found.push_back(entry.path());
  }
  return found;
}

/// What is left in shared memory of the MPI job that printed `output`, or of lockstep itself.
std::vector<std::string> segments_of(const std::string& output) {
  std::vector<std::string> found;
  std::smatch job;
  if (!std::regex_search(output, job, std::regex("job ([0-9a-f]+) of MPI"))) return {"no job"};
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("." + job[1].str() + ".") != std::string::npos) found.push_back(name);
  }
  return found;
}

struct Totals {
  double call = 0, late = 0;
};

/// The sums over all ranks of one call of the program, computed by hand.
Totals totals(int ranks, int call) {
  Totals sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const double rows = 2 + (rank + call) % 3, x = 0.5 + call;
    sums.call += rows * x * x;
    sums.late += rows * (x + 1) * (x + 1);
  }
  return sums;
}

std::string line(int rank, const std::string& what, double total) {
  char text[160];
  std::snprintf(text, sizeof text, "rank %d %s: total %.17g shares %.17g\n", rank, what.c_str(),
                total, total);
  return text;
}

/// The same fault between two calls of a dry run, with the same ranks.
simulator::FaultReport::Alone simulated(const std::string& fault, int ranks, int faulty) {
  const auto scenario = simulator::parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(ranks) +
          R"(, "generator": {"calls": [{"frame": "step", "repeat": 8, "values": {}}]},
              "faults": {"deadline_s": 2, "list": [{"call": 5, "ranks": ")" +
          std::to_string(faulty) + "\", " + fault + "}]}}",
      "matrix");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return simulator::fault_report(*scenario).alone.at(0);
}

/// What a dry run has in place of a fault; empty: nothing.
std::string simulated_fault(const Cell& cell) {
  if (cell.moment != "call") return {};
  if (cell.fault == "kill") return R"("fault": "crashed")";
  if (cell.fault == "stop") return R"("fault": "stopped")";
  if (cell.fault == "hang") return R"("fault": "late", "delay_s": 1000)";
  return {};
}

class FaultMatrix : public testing::TestWithParam<std::tuple<Cell, int>> {
 protected:
  Launched start() {
    const auto& [cell, ranks] = GetParam();
    mark = "LOCKSTEP_FAULT_TEST=" + std::to_string(::getpid()) + ".";
    std::string environment =
        mark + " LOCKSTEP_DEADLINE_SECONDS=" + std::to_string(deadline_of(cell));
    // A compile is one only where the artifact is not there yet.
    if (!cell.compiler.empty() || cell.folder == Cell::Folder::Cache)
      environment += " LOCKSTEP_CACHE_DIR=" + folder / "cache";
    if (cell.folder == Cell::Folder::Record) environment += " LOCKSTEP_RECORD=" + folder / "record";
    if (!cell.compiler.empty()) {
      const std::string compiler = folder / "compiler";
      std::ofstream(compiler) << "#!/bin/sh\n" << cell.compiler << "exec c++ \"$@\"\n";
      std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
      environment += " LOCKSTEP_CXX=" + compiler;
    }
    std::string program = std::string(FAULT_MATRIX_RANK) + " " + cell.fault + " " + cell.moment +
                          " " + std::to_string(faulty());
    if (cell.folder == Cell::Folder::Cache) program += " " + folder / "cache";
    if (cell.folder == Cell::Folder::Record) program += " " + folder / "record";
    return launch_ranks(ranks, program, environment);
  }
  /// The last of two, the first of four, one in the middle of eight; the compiling one is the
  /// first.
  [[nodiscard]] int faulty() const {
    const auto& [cell, ranks] = GetParam();
    const bool builds = !cell.compiler.empty() || cell.folder == Cell::Folder::Cache;
    return builds || ranks == 4 ? 0 : ranks == 2 ? 1 : 5;
  }

  Folder folder;
  std::string mark;
};

TEST_P(FaultMatrix, EndsOrGoesOnAsTheTableSays) {
  const auto& [cell, ranks] = GetParam();
  const Launched job = start();
  RecordProperty("seconds", std::to_string(job.seconds));
  RecordProperty("mpirun", job.exit_code);
  std::printf("%s n=%d: exit code %d, %.1f s\n", cell.name.c_str(), ranks, job.exit_code,
              job.seconds);
  EXPECT_EQ(std::count(cell.exit_codes.begin(), cell.exit_codes.end(), job.exit_code), 1)
      << "exit code " << job.exit_code << "\n"
      << job.output;
  EXPECT_LT(job.seconds, cell.seconds);
  for (const std::string& text : cell.said)
    EXPECT_GE(job.count(named(text, faulty())), 1) << named(text, faulty()) << "\n" << job.output;
  if (cell.exit_codes == std::vector{0}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int call = 0; call < kCalls; ++call) {
        const std::string whole =
            line(rank, "call " + std::to_string(call), totals(ranks, call).call);
        EXPECT_EQ(job.count(whole), 1) << whole << job.output;
      }
      EXPECT_EQ(job.count(line(rank, "late", totals(ranks, 5).late)), 1) << job.output;
    }
    EXPECT_EQ(job.count("lockstep: STUCK") + job.count("lockstep: RANK_LOST"), 0) << job.output;
    EXPECT_EQ(job.count("all ranks ran "), 1) << job.output;
  } else {
    // One error, told by one rank.
    static const std::regex error("lockstep: [A-Z_]+: ");
    const auto errors = std::distance(
        std::sregex_iterator(job.output.begin(), job.output.end(), error), std::sregex_iterator());
    EXPECT_EQ(errors, 1) << job.output;
    EXPECT_EQ(job.count(" call 7: total"), 0) << job.output;
  }
  if (const std::string fault = simulated_fault(cell); !fault.empty()) {
    const auto found = simulated(fault, ranks, faulty());
    ASSERT_TRUE(found.fault.detected);
    EXPECT_EQ(found.fault.named.text(), std::to_string(faulty()));
    const int code = found.job.exit_code.value_or(0);
    EXPECT_EQ(std::count(cell.exit_codes.begin(), cell.exit_codes.end(), code), 1) << code;
    // The sentence up to what it says of processes and numbers of operations.
    const std::string message = found.fault.detected->message;
    const std::string start = message.substr(0, message.find_first_of("(0123456789", 10));
    EXPECT_GE(job.count(": " + start), 1) << start << "\n" << job.output;
  }
  std::vector<std::string> left;
  for (int tries = 0; tries < 300; ++tries) {
    left = processes_of(mark);
    if (left.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the system reaps them
  }
  EXPECT_EQ(left, std::vector<std::string>{});
  EXPECT_EQ(segments_of(job.output), std::vector<std::string>{}) << job.output;
}

std::string cell_name(const testing::TestParamInfo<FaultMatrix::ParamType>& info) {
  return std::get<0>(info.param).name + "_n" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, FaultMatrix,
                         testing::Combine(testing::ValuesIn(kCells), testing::Values(2, 4, 8)),
                         cell_name);

}  // namespace
}  // namespace lockstep::worker::fault_matrix_test
