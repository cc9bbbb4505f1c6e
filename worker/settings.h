// The LOCKSTEP_* environment, read in one place at the edge of a process and passed on as values.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/artifact_store.h>

namespace lockstep::worker {

struct Settings {
  /// Topics of LOCKSTEP_LOG: "info", "guards", "graph", "output_code", "off".
  std::set<std::string> log = {"info"};
  std::string record_dir;  // LOCKSTEP_RECORD; empty: no record
  std::string cache_dir;   // LOCKSTEP_CACHE_DIR
  /// LOCKSTEP_CACHE_LIMIT: bytes of artifacts
  std::uint64_t cache_limit = coordinator::ArtifactStore::kDefaultLimit;
  std::chrono::milliseconds deadline{std::chrono::seconds{60}};  // LOCKSTEP_DEADLINE_SECONDS
  std::string job_id;                                            // LOCKSTEP_JOB_ID
  std::string coordinator;  // LOCKSTEP_COORDINATOR: its address, or its port file
  std::string launch;       // what the launcher calls this start of the job; empty: it says nothing
  std::string token;        // LOCKSTEP_TOKEN: the secret shared with it; never compared or printed
  std::string token_file;   // LOCKSTEP_TOKEN_FILE: holds it
  std::string rendezvous;   // LOCKSTEP_RENDEZVOUS: where processes meet that no launcher started
  int rank = 0, world_size = 1;  // LOCKSTEP_RANK, LOCKSTEP_WORLD_SIZE: of those processes
  bool coordination = true;      // LOCKSTEP_COORDINATION=off
  std::string compiler = "c++";  // LOCKSTEP_CXX

  /// Errors: BadInput, naming the variable and what it takes.
  [[nodiscard]] static Result<Settings> from_environment();
  /// "name=value" lines of what must be the same on every rank; compared in the start-up round.
  [[nodiscard]] std::string agreed_text() const;
};

}  // namespace lockstep::worker
