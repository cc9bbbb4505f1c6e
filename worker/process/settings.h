// The LOCKSTEP_* environment, read in one place at the edge of a process and passed on as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/process/launcher.h>

namespace lockstep::worker {

inline constexpr std::string_view kNoCoordinator = "off";

/// How a process is traced in place of being run (trace_sheet.h); told by `lockstep trace` only.
struct TraceMode {
  std::string folder;       // LOCKSTEP_TRACE: where each rank writes what it traced
  std::uint64_t calls = 0;  // LOCKSTEP_TRACE_CALLS: a rank ends after so many; 0: it goes on
  bool saves = false;       // LOCKSTEP_TRACE_SAVE: the programs of its frames, there, too

  /// "FOLDER/rank-00003.jsonl"
  [[nodiscard]] std::string sheet(int rank) const;
  /// "FOLDER/rank-00003.frame-0.lsp"
  [[nodiscard]] std::string program(int rank, int frame) const;
  /// Beside it once the rank has stopped before the end of its program.
  [[nodiscard]] std::string stopped(int rank) const;
};
/// Of what is in a sheet.
inline constexpr std::string_view kTraceSheetFormat = "lockstep.trace_sheet/1";

struct Settings {
  /// Topics of LOCKSTEP_LOG: "info", "guards", "graph", "output_code", "off".
  std::set<std::string> log = {"info"};
  std::string record_dir;  // LOCKSTEP_RECORD; empty: no record
  std::string cache_dir;   // LOCKSTEP_CACHE_DIR
  /// LOCKSTEP_CACHE_LIMIT: bytes of artifacts
  std::uint64_t cache_limit = coordinator::ArtifactStore::kDefaultLimit;
  std::chrono::milliseconds deadline{std::chrono::seconds{60}};  // LOCKSTEP_DEADLINE_SECONDS
  std::string job_id;                                            // LOCKSTEP_JOB_ID
  /// LOCKSTEP_COORDINATOR: its address, its port file, or kNoCoordinator; empty: rank 0 hosts one.
  std::string coordinator;
  std::string launch;      // what the launcher calls this start of the job; empty: it says nothing
  std::string token;       // LOCKSTEP_TOKEN: the secret shared with it; never compared or printed
  std::string token_file;  // LOCKSTEP_TOKEN_FILE: holds it
  /// LOCKSTEP_RENDEZVOUS: where processes meet over TCP: an address, or the path of a file.
  std::string rendezvous;
  /// LOCKSTEP_RANK, LOCKSTEP_WORLD_SIZE of processes that meet; else as their launcher has told, or
  /// kUntold.
  int rank = 0, world_size = 1;
  static constexpr int kUntold = -1;
  bool coordination = true;  // LOCKSTEP_COORDINATION=off
  /// LOCKSTEP_CHECK_CAPTURES: every so many calls of a frame that an entry serves, its function is
  /// traced again (Job::frame); 0: never.
  std::uint32_t check_captures = 0;
  /// LOCKSTEP_CXX; empty: none is named. Then c++ builds kernels, and where no rank has it they are
  /// interpreted.
  std::string compiler;
  /// Nothing is compiled and nothing runs; there is no coordinator, and no profile of another run.
  /// Without a rendezvous, LOCKSTEP_RANK of LOCKSTEP_WORLD_SIZE is one process that all other ranks
  /// mirror.
  std::optional<TraceMode> trace;
  std::string infer;  // LOCKSTEP_INFER, of a program that is traced: the folder of infer_mode.h

  /// Errors: BadInput, naming the variable and what it takes.
  [[nodiscard]] static Result<Settings> from_environment();
  /// `own`, but for a process that is traced: it is, whatever its program sets. Errors: as
  /// from_environment().
  [[nodiscard]] static Result<Settings> traced(Settings own);
  [[nodiscard]] std::string compiler_command() const { return compiler.empty() ? "c++" : compiler; }
  /// Where databases lie in the cache directory, apart from the artifacts.
  [[nodiscard]] std::string stores_dir() const { return cache_dir + "/stores"; }
  /// Of the job: its id, else made of the program's name and the launch; the same on all ranks.
  [[nodiscard]] std::string job_name() const;
  /// "name=value" lines of what must be the same on every rank; compared in the start-up round.
  [[nodiscard]] std::string agreed_text() const;
};

/// Who has started this process together with others, if anybody has; as launcher_of().
[[nodiscard]] std::optional<Launcher> launcher_from_environment();
/// Which rank this process will be, as far as that is known before its job starts; else 0. For what
/// one rank is to say for all.
[[nodiscard]] int rank_told();

/// A name as part of a path: what is no letter, digit, dot or dash is an underscore.
[[nodiscard]] std::string file_name_of(std::string name);

}  // namespace lockstep::worker
