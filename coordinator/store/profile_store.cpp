// A payload is a sealed profile together with its job and frame, so that a payload under a wrong
// key is noticed.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/profile_store.h>

namespace lockstep::coordinator {
namespace {

constexpr std::array kProfileMigrations = {
    R"sql(
CREATE TABLE profile (
  key BLOB NOT NULL PRIMARY KEY,
  job TEXT NOT NULL,
  payload BLOB NOT NULL,
  sha256 TEXT NOT NULL,
  written INTEGER NOT NULL      -- counts up
) STRICT;
CREATE INDEX profile_of_job ON profile (job);
CREATE INDEX profile_by_age ON profile (written);
CREATE TABLE damaged (          -- what was set aside, the last few
  payload BLOB NOT NULL,
  why TEXT NOT NULL
) STRICT;
)sql",
    // Payloads are sealed from here on; the seal has their SHA-256.
    R"sql(
DELETE FROM profile;
ALTER TABLE profile DROP COLUMN sha256;
)sql",
};

constexpr std::int64_t kMostDamaged = 16;

}  // namespace

Result<std::unique_ptr<ProfileStore>> ProfileStore::open(Options options) {
  auto database = Database::open({.directory = options.directory,
                                  .file = std::string(kFile),
                                  .content = {.noun = "profile database",
                                              .danger = "what is in it steers what gets compiled",
                                              .recovery = "jobs learn their profiles again",
                                              .migrations = kProfileMigrations},
                                  .access = options.access,
                                  .report = options.report});
  if (!database) return database.error();
  return std::unique_ptr<ProfileStore>(new ProfileStore(std::move(options), std::move(*database)));
}

Bytes ProfileStore::key_of(const FrameKey& frame) const {
  const auto key =
      shapes::FingerprintBuilder().add(options_.job_id).add(frame.name).add(frame.content).finish();
  ByteWriter out;
  out.u64(key.high);
  out.u64(key.low);
  return std::move(out).take();
}

/// Reads and verifies the row of `frame`.
void ProfileStore::find(Transaction& in, const FrameKey& frame, Kept& kept) const {
  kept = {};
  const Bytes key = key_of(frame);
  in.run("SELECT payload FROM profile WHERE key = ?1", {std::span(key)}, [&](const Row& row) {
    const Bytes payload = row.blob(0);
    if (payload.size() > kLargest) {
      kept.damage = fmt::format("it has {} bytes, at most {} are read", payload.size(), kLargest);
      return;
    }
    auto read = decode_profile(payload);
    if (!read)
      kept.damage = read.error().message;
    else if (read->job != options_.job_id || read->frame != frame)
      kept.damage = "it is of another job or frame";
    else
      kept.profile = std::move(read->profile);
  });
}

Result<Profile> ProfileStore::load(const FrameKey& frame) {
  Kept kept;
  if (auto done = database_->read([&](Transaction& in) { find(in, frame, kept); }); !done)
    return done.error();
  if (!kept.damage.empty()) set_aside(frame, kept.damage);
  return kept.profile ? *std::move(kept.profile) : Profile{};
}

/// If several processes notice the damage, the process that moves the row reports it. If no process
/// can move the row, each reports the damage once.
void ProfileStore::set_aside(const FrameKey& frame, const std::string& why) {
  Kept kept;
  const Bytes key = key_of(frame);
  bool moved = false;
  const auto done = database_->write([&](Transaction& in) {
    find(in, frame, kept);
    moved = !kept.damage.empty();
    if (!moved) return;
    in.run("INSERT INTO damaged SELECT payload, ?2 FROM profile WHERE key = ?1",
           {std::span(key), std::string_view(why)});
    in.run("DELETE FROM profile WHERE key = ?1", {std::span(key)});
    in.run("DELETE FROM damaged WHERE rowid <= (SELECT max(rowid) FROM damaged) - ?1",
           {kMostDamaged});
  });
  moved = moved && done;
  if (!moved && (done || !reported_.insert(frame.name).second)) return;
  if (options_.report)
    options_.report(environment_error(fmt::format(
        "the profile of {} in {}/{} is damaged ({}); it was {} and the job learns it "
        "again",
        frame.name, options_.directory, kFile, why, moved ? "set aside" : "left alone")));
}

Result<void> ProfileStore::store(const FrameKey& frame, const Profile& profile) {
  KeptProfile wanted{options_.job_id, frame, profile};
  std::erase_if(wanted.profile, [](const auto& source) { return !plausible(source.second.seen); });
  const Bytes key = key_of(frame), payload = encode(wanted);
  if (payload.size() > kLargest)
    return environment_error(fmt::format("the profile of {} has {} bytes, at most {} are kept",
                                         frame.name, payload.size(), kLargest));
  Kept kept;
  if (database_->read([&](Transaction& in) { find(in, frame, kept); }) &&
      kept.profile == wanted.profile)
    return {};
  return database_->write([&](Transaction& in) {
    in.run(
        "INSERT INTO profile SELECT ?1, ?2, ?3, ifnull(max(written), 0) + 1 FROM profile WHERE "
        "true ON CONFLICT (key) DO UPDATE SET job = excluded.job, payload = excluded.payload, "
        "written = excluded.written",
        {std::span(key), std::string_view(options_.job_id), std::span(payload)});
    in.run(
        "DELETE FROM profile WHERE key IN (SELECT key FROM profile ORDER BY written DESC "
        "LIMIT -1 OFFSET ?1)",
        {std::int64_t{kMost}});
  });
}

Result<std::vector<std::pair<FrameKey, Profile>>> ProfileStore::all() {
  std::vector<std::pair<FrameKey, Profile>> found;
  const auto done = database_->read([&](Transaction& in) {
    found.clear();
    in.run("SELECT key, payload FROM profile WHERE job = ?1", {std::string_view(options_.job_id)},
           [&](const Row& row) {
             auto kept = decode_profile(row.blob(1));
             if (kept && kept->job == options_.job_id && key_of(kept->frame) == row.blob(0))
               found.emplace_back(std::move(kept->frame), std::move(kept->profile));
           });
  });
  if (!done) return done.error();
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return found;
}

}  // namespace lockstep::coordinator
