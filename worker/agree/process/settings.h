// The LOCKSTEP_* environment, read in one place at the edge of a process and passed on as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agree/process/launcher.h>

namespace lockstep::worker {

inline constexpr std::string_view kNoCoordinator = "off";
inline constexpr int kMostThreads = 4096;

/// How a process is traced in place of being run (trace_sheet.h); set by `lockstep trace` and
/// `lockstep infer` only.
struct TraceMode {
  std::string folder;       // LOCKSTEP_TRACE: where each rank writes its sheet
  std::uint64_t calls = 0;  // LOCKSTEP_TRACE_CALLS: calls after which a rank ends; 0: no limit
  bool saves = false;       // LOCKSTEP_TRACE_SAVE: a rank also writes its frames' programs to it

  /// "FOLDER/rank-00003.jsonl"
  [[nodiscard]] std::string sheet(int rank) const;
  /// "FOLDER/rank-00003.frame-0.lsp"
  [[nodiscard]] std::string program(int rank, int frame) const;
  /// File that marks a rank which has stopped before the end of its program.
  [[nodiscard]] std::string stopped(int rank) const;
};
/// The format of sheets.
inline constexpr std::string_view kTraceSheetFormat = "lockstep.trace_sheet/1";

struct Settings {
  /// Topics of LOCKSTEP_LOG: "info", "debug", "guards", "graph", "output_code", "off".
  std::set<std::string> log = {"info"};
  std::string record_dir;  // LOCKSTEP_RECORD; empty: no record
  std::string cache_dir;   // LOCKSTEP_CACHE_DIR
  /// LOCKSTEP_CACHE_LIMIT: bytes of artifacts
  std::uint64_t cache_limit = coordinator::ArtifactStore::kDefaultLimit;
  std::chrono::milliseconds deadline{std::chrono::seconds{60}};  // LOCKSTEP_DEADLINE_SECONDS
  std::string job_id;                                            // LOCKSTEP_JOB_ID
  /// LOCKSTEP_COORDINATOR: address or port file of a coordinator, or kNoCoordinator; empty: rank 0
  /// hosts a coordinator.
  std::string coordinator;
  std::string launch;      // name of this start, from launcher or rendezvous; empty: not known
  std::string token;       // LOCKSTEP_TOKEN: the shared secret; never compared or printed
  std::string token_file;  // LOCKSTEP_TOKEN_FILE: file with the secret
  /// LOCKSTEP_RENDEZVOUS, where processes meet over TCP: an address, or the path of a file.
  std::string rendezvous;
  /// LOCKSTEP_RANK, LOCKSTEP_WORLD_SIZE of processes that meet over TCP; if not set, the
  /// launcher's; without a launcher kUnset.
  int rank = 0, world_size = 1;
  static constexpr int kUnset = -1;
  bool coordination = true;  // false: LOCKSTEP_COORDINATION=off
  /// LOCKSTEP_CHECK_CAPTURES: number of hits of a frame after which its function is traced again
  /// (Job::frame); 0: never.
  std::uint32_t check_captures = 0;
  /// LOCKSTEP_THREADS: threads that compute the steps of a program on the host; 0: this rank's
  /// share of the cores (share_of_cores()). May differ between ranks.
  int threads = 0;
  /// LOCKSTEP_CXX; empty: c++ builds kernels, and if no rank has it they are interpreted.
  std::string compiler;
  /// If set, nothing is compiled or run, and there is no coordinator and no profile. Without a
  /// rendezvous this process is LOCKSTEP_RANK of LOCKSTEP_WORLD_SIZE; the other ranks mirror it.
  std::optional<TraceMode> trace;
  std::string infer;  // LOCKSTEP_INFER of a traced program: the folder of its InferRequest

  /// Errors: BadInput, naming the variable and what it takes.
  [[nodiscard]] static Result<Settings> from_environment();
  /// Returns `own`; in a traced process, with the settings of the trace in place of the program's.
  /// Errors: as from_environment().
  [[nodiscard]] static Result<Settings> traced(Settings own);
  [[nodiscard]] std::string compiler_command() const { return compiler.empty() ? "c++" : compiler; }
  /// Folder of the databases in the cache directory, apart from the artifacts.
  [[nodiscard]] std::string stores_dir() const { return cache_dir + "/stores"; }
  /// The job's id, else a name from the program's name and the launch; the same on all ranks.
  [[nodiscard]] std::string job_name() const;
  /// "name=value" lines of what must be the same on every rank; compared in the start-up round.
  [[nodiscard]] std::string agreed_text() const;
};

/// launcher_of() for this process's environment.
[[nodiscard]] std::optional<Launcher> launcher_from_environment();
/// The rank that this process will have, if it is known before the job starts; else 0. Lets one
/// rank print lines for all.
[[nodiscard]] int rank_if_known();

/// Returns this process's share of the cores on which it may run: a core counts for as much as
/// there are no other ranks that may run on it. At least 1. `ranks`: the processes of this host's
/// ranks, including this process.
[[nodiscard]] int share_of_cores(std::span<const std::int32_t> ranks);

/// A name as part of a path: characters other than letters, digits, dots and dashes become
/// underscores.
[[nodiscard]] std::string file_name_of(std::string name);

}  // namespace lockstep::worker
