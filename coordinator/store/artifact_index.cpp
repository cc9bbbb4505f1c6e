#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <lockstep/coordinator/store/artifact_index.h>

namespace lockstep::coordinator {
namespace {

constexpr std::array kArtifactMigrations = {
    R"sql(
CREATE TABLE artifact (
  key BLOB NOT NULL PRIMARY KEY,
  bytes INTEGER NOT NULL,
  used INTEGER NOT NULL         -- microseconds since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_by_use ON artifact (used, key, bytes);
)sql",
};

/// The key as bytes, which sort as keys do.
Bytes key_bytes(const shapes::Fingerprint& key) {
  Bytes out(16);
  for (std::size_t i = 0; i < 8; ++i) {
    out[7 - i] = static_cast<std::byte>(key.high >> (8 * i));
    out[15 - i] = static_cast<std::byte>(key.low >> (8 * i));
  }
  return out;
}

std::optional<shapes::Fingerprint> key_of(const Bytes& bytes) {
  if (bytes.size() != 16) return std::nullopt;
  shapes::Fingerprint key;
  for (std::size_t i = 0; i < 8; ++i) {
    key.high = key.high << 8 | static_cast<std::uint64_t>(bytes[i]);
    key.low = key.low << 8 | static_cast<std::uint64_t>(bytes[8 + i]);
  }
  return key;
}

}  // namespace

Result<void> ArtifactIndex::open() {
  if (database_ != nullptr) return {};
  auto database = Database::open({.directory = directory_,
                                  .file = std::string(kFile),
                                  .content = {.noun = "artifact index",
                                              .danger = "what is in it decides what is removed",
                                              .recovery = "it is made anew from the files",
                                              .migrations = kArtifactMigrations},
                                  .report = report_});
  if (!database) return database.error();
  database_ = std::move(*database);
  return {};
}

void ArtifactIndex::used(const shapes::Fingerprint& key, Time now) { uses_[key] = now; }

void ArtifactIndex::write_uses(Transaction& in) const {
  for (const auto& [key, time] : uses_) {
    const Bytes bytes = key_bytes(key);
    in.run("UPDATE artifact SET used = ?2 WHERE key = ?1 AND used < ?2", {std::span(bytes), time});
  }
}

Result<void> ArtifactIndex::note_uses() {
  if (uses_.empty()) return {};
  if (auto opened = open(); !opened) return opened;
  const auto done = database_->write_at_once([&](Transaction& in) { write_uses(in); });
  if (!done) return done.error();
  if (*done) uses_.clear();
  return {};
}

Result<void> ArtifactIndex::stored(const shapes::Fingerprint& key, std::uint64_t bytes,
                                   std::uint64_t limit, Time now) {
  if (auto opened = open(); !opened) return opened;
  unsigned compared = compared_;
  const auto done = database_->write([&](Transaction& in) {
    compared = database_->files();
    if (compared != compared_) compare_with_files(in);
    write_uses(in);
    const Bytes name = key_bytes(key);
    in.run("INSERT OR REPLACE INTO artifact VALUES (?1, ?2, ?3)",
           {std::span(name), static_cast<std::int64_t>(bytes), now});
    evict(in, key, limit);
  });
  if (!done) return done.error();
  compared_ = compared;
  uses_.clear();
  return {};
}

/// Adds a row for each file that has none; its time of last use is that of writing. Corrects sizes,
/// and removes the rows of missing files.
void ArtifactIndex::compare_with_files(Transaction& in) {
  std::map<shapes::Fingerprint, std::int64_t> rows;
  in.run("SELECT key, bytes FROM artifact", {}, [&](const Row& row) {
    const auto key = key_of(row.blob(0));
    if (!key) return in.refuse("a key in it is none");
    rows[*key] = row.integer(1);
  });
  for (const VerifiedDirectory::File& file : files_.files()) {
    const Bytes name = key_bytes(file.key);
    const auto bytes = static_cast<std::int64_t>(file.bytes);
    const auto row = rows.find(file.key);
    if (row == rows.end())
      in.run("INSERT INTO artifact VALUES (?1, ?2, ?3)", {std::span(name), bytes, file.written});
    else if (row->second != bytes)
      in.run("UPDATE artifact SET bytes = ?2 WHERE key = ?1", {std::span(name), bytes});
    if (row != rows.end()) rows.erase(row);
  }
  for (const auto& [key, bytes] : rows) {
    const Bytes name = key_bytes(key);
    in.run("DELETE FROM artifact WHERE key = ?1", {std::span(name)});
  }
}

/// Removes each file before its row. If the process ends in between, the next eviction removes the
/// row.
void ArtifactIndex::evict(Transaction& in, const shapes::Fingerprint& except, std::uint64_t limit) {
  std::int64_t total = 0;
  in.run("SELECT ifnull(sum(bytes), 0) FROM artifact", {},
         [&](const Row& row) { total = row.integer(0); });
  if (total < 0) return in.refuse("a size in it is none");
  const auto most = static_cast<std::int64_t>(
      std::min<std::uint64_t>(limit, std::numeric_limits<std::int64_t>::max()));
  while (in.ok() && total > most) {
    std::vector<std::pair<Bytes, std::int64_t>> oldest;
    const Bytes kept = key_bytes(except);
    in.run("SELECT key, bytes FROM artifact WHERE key <> ?1 ORDER BY used, key LIMIT 64",
           {std::span(kept)},
           [&](const Row& row) { oldest.emplace_back(row.blob(0), row.integer(1)); });
    if (oldest.empty()) return;
    for (const auto& [name, bytes] : oldest) {
      const auto key = key_of(name);
      if (!key || bytes < 0) return in.refuse("a key or size in it is none");
      if (total <= most || !in.ok()) return;
      if (!files_.remove(*key)) return;  // the directory refuses removals: try again later
      in.run("DELETE FROM artifact WHERE key = ?1", {std::span(name)});
      total -= bytes;
    }
  }
}

}  // namespace lockstep::coordinator
