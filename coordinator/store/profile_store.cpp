// A payload is job id, frame name and the frame's content (16 bytes), and then the profile. Its
// key is the fingerprint of all that precedes the profile. SQLite keeps no checksums, so each row
// has the SHA-256 of its payload.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/profile_store.h>
#include <lockstep/coordinator/store/verified_directory.h>

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
};

constexpr std::int64_t kMostDamaged = 16;

Bytes key_bytes(const Bytes& head) {
  const shapes::Fingerprint key = shapes::fingerprint(head);
  ByteWriter out;
  out.u64(key.high);
  out.u64(key.low);
  return std::move(out).take();
}

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

Bytes ProfileStore::head_of(const FrameKey& frame) const {
  ByteWriter out;
  out.text(options_.job_id);
  out.text(frame.name);
  out.u64(frame.content.high);
  out.u64(frame.content.low);
  return std::move(out).take();
}

/// The row under the key of `head`, verified.
void ProfileStore::find(Transaction& in, const Bytes& head, Kept& kept) const {
  kept = {};
  const Bytes key = key_bytes(head);
  in.run("SELECT payload, sha256 FROM profile WHERE key = ?1", {std::span(key)},
         [&](const Row& row) {
           const Bytes payload = row.blob(0);
           if (payload.size() > head.size() + kLargest)
             kept.flaw = fmt::format("it has {} bytes, at most {} are read", payload.size(),
                                     head.size() + kLargest);
           else if (content_digest(payload) != row.text(1))
             kept.flaw = "its SHA-256 does not match";
           else if (payload.size() < head.size() ||
                    !std::equal(head.begin(), head.end(), payload.begin()))
             kept.flaw = "it is of another job or frame";
           else if (!(kept.profile = decode_profile(std::span(payload).subspan(head.size()))))
             kept.flaw = "it is not a profile of this version, or no run can have seen that";
         });
}

Result<Profile> ProfileStore::load(const FrameKey& frame) {
  Kept kept;
  const Bytes head = head_of(frame);
  if (auto done = database_->read([&](Transaction& in) { find(in, head, kept); }); !done)
    return done.error();
  if (!kept.flaw.empty()) set_aside(frame, kept.flaw);
  return kept.profile ? *std::move(kept.profile) : Profile{};
}

/// Who of several processes takes the row away reports it. Where nobody can, each does so once.
void ProfileStore::set_aside(const FrameKey& frame, const std::string& why) {
  Kept kept;
  const Bytes head = head_of(frame), key = key_bytes(head);
  bool moved = false;
  const auto done = database_->write([&](Transaction& in) {
    find(in, head, kept);
    moved = !kept.flaw.empty();
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
    options_.report(
        {Code::Environment,
         fmt::format("the profile of {} in {}/{} is damaged ({}); it was {} and the job learns it "
                     "again",
                     frame.name, options_.directory, kFile, why,
                     moved ? "set aside" : "left alone")});
}

Result<void> ProfileStore::store(const FrameKey& frame, const Profile& profile) {
  Profile wanted = profile;
  std::erase_if(wanted, [](const auto& source) { return !plausible(source.second.seen); });
  const Bytes head = head_of(frame), key = key_bytes(head), body = encode(wanted);
  if (body.size() > kLargest)
    return Status{Code::Environment,
                  fmt::format("the profile of {} has {} bytes, at most {} are kept", frame.name,
                              body.size(), kLargest)};
  Kept kept;
  if (database_->read([&](Transaction& in) { find(in, head, kept); }) && kept.profile == wanted)
    return {};
  Bytes payload = head;
  payload.insert(payload.end(), body.begin(), body.end());
  const std::string digest = content_digest(payload);
  return database_->write([&](Transaction& in) {
    in.run(
        "INSERT INTO profile SELECT ?1, ?2, ?3, ?4, ifnull(max(written), 0) + 1 FROM profile "
        "WHERE true ON CONFLICT (key) DO UPDATE SET job = excluded.job, payload = "
        "excluded.payload, sha256 = excluded.sha256, written = excluded.written",
        {std::span(key), std::string_view(options_.job_id), std::span(payload),
         std::string_view(digest)});
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
    std::vector<FrameKey> frames;
    in.run("SELECT payload FROM profile WHERE job = ?1", {std::string_view(options_.job_id)},
           [&](const Row& row) {
             const Bytes payload = row.blob(0);
             ByteReader head(payload);
             FrameKey frame;
             if (head.text() != options_.job_id) return;
             frame.name = head.text();
             frame.content.high = head.u64();
             frame.content.low = head.u64();
             if (head.ok()) frames.push_back(std::move(frame));
           });
    for (FrameKey& frame : frames) {
      Kept kept;
      find(in, head_of(frame), kept);
      if (kept.profile) found.emplace_back(std::move(frame), *std::move(kept.profile));
    }
  });
  if (!done) return done.error();
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.name, a.first.content) < std::tie(b.first.name, b.first.content);
  });
  return found;
}

}  // namespace lockstep::coordinator
