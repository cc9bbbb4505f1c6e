#include <array>
#include <limits>
#include <map>
#include <utility>

#include <lockstep/coordinator/store/history_store.h>

namespace lockstep::coordinator {
namespace {

using Text = std::string_view;

constexpr std::array kHistoryMigrations = {
    R"sql(
CREATE TABLE run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  coordinator TEXT NOT NULL,
  job TEXT NOT NULL,
  watched INTEGER NOT NULL,     -- counts its coordinator's runs
  number INTEGER NOT NULL,      -- among all runs of the job
  size INTEGER NOT NULL,
  build TEXT NOT NULL,
  configuration TEXT NOT NULL,
  began INTEGER NOT NULL,       -- microseconds since 1970, as all times here
  seen INTEGER NOT NULL,
  ended INTEGER,
  word TEXT NOT NULL,
  sentence TEXT NOT NULL,
  UNIQUE (coordinator, watched)
) STRICT;
CREATE INDEX run_of_job ON run (job, number);
CREATE TABLE call (
  run INTEGER NOT NULL,
  serial INTEGER NOT NULL,
  at INTEGER NOT NULL,
  frame TEXT NOT NULL,
  groupname TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  call INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  code TEXT NOT NULL,
  entry INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  ranks TEXT NOT NULL,
  exchange INTEGER NOT NULL,    -- nanoseconds, as the next three
  trace INTEGER NOT NULL,
  compile INTEGER NOT NULL,
  waited INTEGER NOT NULL,
  slowest INTEGER NOT NULL,
  PRIMARY KEY (run, serial)
) STRICT, WITHOUT ROWID;
CREATE TABLE version (          -- ranks that came to the same in one call
  run INTEGER NOT NULL, serial INTEGER NOT NULL, number INTEGER NOT NULL,
  ranks TEXT NOT NULL, graph TEXT NOT NULL, outcome TEXT NOT NULL, code TEXT NOT NULL,
  decisions TEXT NOT NULL,
  PRIMARY KEY (run, serial, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE reason (
  run INTEGER NOT NULL, serial INTEGER NOT NULL, number INTEGER NOT NULL,
  ranks TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (run, serial, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE note (             -- findings to act on, verdicts
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
CREATE INDEX note_of_run ON note (run, id);
)sql",
};

std::int64_t micros(HistoryTime time) { return time.time_since_epoch().count(); }
HistoryTime wall(std::int64_t micros) { return HistoryTime(std::chrono::microseconds(micros)); }

/// Inserts or updates the row of the run; returns its id.
std::int64_t write_run(Transaction& in, const HistoryRun& run) {
  const Transaction::Value ended =
      run.ended ? Transaction::Value(micros(*run.ended)) : Transaction::Value();
  in.run(
      "INSERT INTO run (coordinator, job, watched, number, size, build, configuration, began, "
      "seen, ended, word, sentence) SELECT ?1, ?2, ?3, ifnull(max(number), 0) + 1, ?4, ?5, ?6, "
      "?7, ?8, ?9, ?10, ?11 FROM run WHERE job = ?2 "
      "ON CONFLICT (coordinator, watched) DO UPDATE SET configuration = "
      "excluded.configuration, seen = excluded.seen, ended = excluded.ended, word = "
      "excluded.word, sentence = excluded.sentence",
      {Text(run.coordinator), Text(run.job), std::int64_t{run.watched}, std::int64_t{run.size},
       Text(run.build), Text(run.configuration), micros(run.began), micros(run.seen), ended,
       Text(run.word), Text(run.sentence)});
  std::int64_t id = 0;
  in.run("SELECT id FROM run WHERE coordinator = ?1 AND watched = ?2",
         {Text(run.coordinator), std::int64_t{run.watched}},
         [&](const Row& row) { id = row.integer(0); });
  return id;
}

void write_call(Transaction& in, std::int64_t run, const HistoryCall& call) {
  const auto serial = static_cast<std::int64_t>(call.serial);
  in.run(
      "INSERT OR REPLACE INTO call VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
      "?13, ?14, ?15, ?16, ?17)",
      {run, serial, micros(call.at), Text(call.frame), Text(call.group),
       static_cast<std::int64_t>(call.epoch), static_cast<std::int64_t>(call.call),
       Text(call.outcome), Text(call.code), std::int64_t{call.entry}, std::int64_t{call.attempts},
       Text(call.ranks), call.exchange.count(), call.trace.count(), call.compile.count(),
       call.waited.count(), std::int64_t{call.slowest}});
  in.run("DELETE FROM version WHERE run = ?1 AND serial = ?2", {run, serial});
  in.run("DELETE FROM reason WHERE run = ?1 AND serial = ?2", {run, serial});
  std::int64_t number = 0;
  for (const HistoryVersion& version : call.versions)
    in.run("INSERT INTO version VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
           {run, serial, number++, Text(version.ranks), Text(version.graph), Text(version.outcome),
            Text(version.code), Text(version.decisions)});
  number = 0;
  for (const HistoryReason& reason : call.reasons)
    in.run("INSERT INTO reason VALUES (?1, ?2, ?3, ?4, ?5)",
           {run, serial, number++, Text(reason.ranks), Text(reason.text)});
}

/// Removes calls and notes of a run past the limits.
void prune_run(Transaction& in, std::int64_t run) {
  std::int64_t first = 0;
  in.run("SELECT ifnull(max(serial), 0) - ?2 + 1 FROM call WHERE run = ?1",
         {run, HistoryStore::kMostCalls}, [&](const Row& row) { first = row.integer(0); });
  if (first > 0) {
    in.run("DELETE FROM call WHERE run = ?1 AND serial < ?2", {run, first});
    in.run("DELETE FROM version WHERE run = ?1 AND serial < ?2", {run, first});
    in.run("DELETE FROM reason WHERE run = ?1 AND serial < ?2", {run, first});
  }
  in.run(
      "DELETE FROM note WHERE id IN (SELECT id FROM note WHERE run = ?1 ORDER BY id DESC LIMIT "
      "-1 OFFSET ?2)",
      {run, HistoryStore::kMostNotes});
}

/// Removes all but the latest kMostRuns runs, with their calls and notes.
void prune_runs(Transaction& in) {
  std::vector<std::int64_t> gone;
  in.run("SELECT id FROM run ORDER BY id DESC LIMIT -1 OFFSET ?1",
         {std::int64_t{HistoryStore::kMostRuns}},
         [&](const Row& row) { gone.push_back(row.integer(0)); });
  for (const std::int64_t run : gone)
    for (const Text sql : {"DELETE FROM call WHERE run = ?1", "DELETE FROM version WHERE run = ?1",
                           "DELETE FROM reason WHERE run = ?1", "DELETE FROM note WHERE run = ?1",
                           "DELETE FROM run WHERE id = ?1"})
      in.run(sql, {run});
}

HistoryRun run_of(const Row& row) {
  HistoryRun run;
  run.id = row.integer(0);
  run.coordinator = row.text(1);
  run.job = row.text(2);
  run.watched = static_cast<int>(row.integer(3));
  run.number = static_cast<int>(row.integer(4));
  run.size = static_cast<int>(row.integer(5));
  run.build = row.text(6);
  run.configuration = row.text(7);
  run.began = wall(row.integer(8));
  run.seen = wall(row.integer(9));
  if (!row.null(10)) run.ended = wall(row.integer(10));
  run.word = row.text(11);
  run.sentence = row.text(12);
  return run;
}

HistoryCall call_of(const Row& row) {
  HistoryCall call;
  call.serial = static_cast<std::uint64_t>(row.integer(0));
  call.at = wall(row.integer(1));
  call.frame = row.text(2);
  call.group = row.text(3);
  call.epoch = static_cast<std::uint64_t>(row.integer(4));
  call.call = static_cast<std::uint64_t>(row.integer(5));
  call.outcome = row.text(6);
  call.code = row.text(7);
  call.entry = static_cast<std::int32_t>(row.integer(8));
  call.attempts = static_cast<std::uint32_t>(row.integer(9));
  call.ranks = row.text(10);
  call.exchange = Duration(row.integer(11));
  call.trace = Duration(row.integer(12));
  call.compile = Duration(row.integer(13));
  call.waited = Duration(row.integer(14));
  call.slowest = static_cast<std::int32_t>(row.integer(15));
  return call;
}

}  // namespace

Result<std::unique_ptr<HistoryStore>> HistoryStore::open(Options options) {
  auto database = Database::open({.directory = std::move(options.directory),
                                  .file = std::string(kFile),
                                  .content = {.noun = "history",
                                              .danger = "what is in it is shown as what jobs did",
                                              .recovery = "a new one is begun",
                                              .migrations = kHistoryMigrations},
                                  .access = options.access,
                                  .report = std::move(options.report)});
  if (!database) return database.error();
  return std::unique_ptr<HistoryStore>(new HistoryStore(std::move(*database)));
}

Result<void> HistoryStore::write(const std::vector<RunNews>& news) {
  return database_->write([&](Transaction& in) {
    for (const RunNews& one : news) {
      const std::int64_t run = write_run(in, one.run);
      for (const HistoryCall& call : one.calls) write_call(in, run, call);
      for (const HistoryNote& note : one.notes)
        in.run("INSERT INTO note (run, at, kind, message) VALUES (?1, ?2, ?3, ?4)",
               {run, micros(note.at), Text(note.kind), Text(note.message)});
      if (!one.calls.empty() || !one.notes.empty()) prune_run(in, run);
    }
    prune_runs(in);
  });
}

Result<std::vector<HistoryRun>> HistoryStore::runs(const std::string& job) {
  std::vector<HistoryRun> found;
  const auto done = database_->read([&](Transaction& in) {
    found.clear();
    std::map<std::int64_t, std::size_t> at;
    in.run(
        "SELECT id, coordinator, job, watched, number, size, build, configuration, began, seen, "
        "ended, word, sentence FROM run WHERE ?1 IN ('', job) ORDER BY id DESC",
        {Text(job)}, [&](const Row& row) {
          at[row.integer(0)] = found.size();
          found.push_back(run_of(row));
        });
    in.run(
        "SELECT run, sum(outcome = 'compiled'), sum(outcome = 'fallback'), sum(outcome = "
        "'error') FROM call GROUP BY run",
        {}, [&](const Row& row) {
          const auto run = at.find(row.integer(0));
          if (run == at.end()) return;
          found[run->second].compiled = static_cast<std::uint64_t>(row.integer(1));
          found[run->second].fallbacks = static_cast<std::uint64_t>(row.integer(2));
          found[run->second].errors = static_cast<std::uint64_t>(row.integer(3));
        });
  });
  if (!done) return done.error();
  return found;
}

Result<std::vector<HistoryCall>> HistoryStore::calls(const HistoryRun& run) {
  std::vector<HistoryCall> found;
  const auto done = database_->read([&](Transaction& in) {
    found.clear();
    std::map<std::int64_t, std::size_t> at;
    in.run(
        "SELECT serial, at, frame, groupname, epoch, call, outcome, code, entry, attempts, "
        "ranks, exchange, trace, compile, waited, slowest FROM call WHERE run = ?1 ORDER BY "
        "serial",
        {run.id}, [&](const Row& row) {
          at[row.integer(0)] = found.size();
          found.push_back(call_of(row));
        });
    const auto of = [&](const Row& row) -> HistoryCall* {
      const auto call = at.find(row.integer(0));
      return call == at.end() ? nullptr : &found[call->second];
    };
    in.run(
        "SELECT serial, ranks, graph, outcome, code, decisions FROM version WHERE run = ?1 "
        "ORDER BY serial, number",
        {run.id}, [&](const Row& row) {
          if (HistoryCall* call = of(row))
            call->versions.push_back(
                {row.text(1), row.text(2), row.text(3), row.text(4), row.text(5)});
        });
    in.run("SELECT serial, ranks, text FROM reason WHERE run = ?1 ORDER BY serial, number",
           {run.id}, [&](const Row& row) {
             if (HistoryCall* call = of(row)) call->reasons.push_back({row.text(1), row.text(2)});
           });
  });
  if (!done) return done.error();
  return found;
}

Result<std::vector<HistoryNote>> HistoryStore::notes(const HistoryRun& run) {
  std::vector<HistoryNote> found;
  const auto done = database_->read([&](Transaction& in) {
    found.clear();
    in.run("SELECT at, kind, message FROM note WHERE run = ?1 ORDER BY id", {run.id},
           [&](const Row& row) {
             found.push_back({wall(row.integer(0)), row.text(1), row.text(2)});
           });
  });
  if (!done) return done.error();
  return found;
}

}  // namespace lockstep::coordinator
