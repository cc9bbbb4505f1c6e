#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>

namespace lockstep::worker {
namespace {

using collectives::Vote;
using collectives::VoteFlag;

constexpr std::size_t kBits = 64;  // units that one vote asks about

/// One unit of this rank's program.
struct Unit {
  shapes::Fingerprint key;
  Bytes object;                   // empty: this rank does not have it
  std::string digest;             // digest of the object
  std::optional<Status> trouble;  // why this rank could not build it
};

class SharedBuild {
 public:
  SharedBuild(CallDriver& driver, RoundKey key, const BuildTools& tools)
      : driver_(driver), key_(std::move(key)), tools_(tools) {
    key_.kind = RoundKey::Kind::Commit;
  }

  SharedUnits run(const Result<Program>& program);

 private:
  /// Result of a step: go on; stop, with made_.failure set if this rank reports the reason; or all
  /// ranks have all objects.
  enum class Next : std::uint8_t { GoOn, Stop, Complete };
  Next first_vote(const Result<Program>& program);
  Next build_missing(const Program& program);
  Next distribute();

  void take_from_store(Unit& unit);
  void keep(const Unit& unit);
  void build(const Program& program, const std::vector<std::size_t>& dealt);
  [[nodiscard]] Next join_table();
  [[nodiscard]] std::optional<Status> cannot_be_built(const UnitRow& row, const Unit& unit) const;
  [[nodiscard]] Result<std::vector<shapes::Fingerprint>> lacking();
  [[nodiscard]] Result<void> pass_on(const shapes::Fingerprint& key, const UnitArtifact& artifact);
  void receive(Unit& unit, const UnitArtifact& artifact, const Bytes& bytes);
  [[nodiscard]] Unit* find(const shapes::Fingerprint& key);
  [[nodiscard]] bool has_agreed_object(const Unit& unit) const;
  Next stop(Status failure) {
    if (!made_.failure) made_.failure = std::move(failure);
    return Next::Stop;
  }
  [[nodiscard]] const RoundKey& next_key() {
    ++key_.attempt;
    return key_;
  }
  /// Returns the rank's number in the job, for messages.
  [[nodiscard]] std::int32_t named(Rank rank) const {
    return tools_.members.size() > rank.value ? nth(tools_.members, rank.value).value : rank.value;
  }
  [[nodiscard]] Rank self() const { return driver_.group().rank(); }

  CallDriver& driver_;
  RoundKey key_;
  const BuildTools& tools_;
  std::vector<Unit> units_;
  UnitTable table_;
  SharedUnits made_;
};

SharedUnits SharedBuild::run(const Result<Program>& program) {
  Next next = first_vote(program);
  if (next == Next::GoOn) next = build_missing(*program);
  if (next == Next::GoOn) next = distribute();
  if (tools_.store != nullptr) tools_.store->note_uses();
  if (next == Next::Stop) return std::move(made_);
  auto& objects = made_.objects.emplace();
  for (Unit& unit : units_) objects.push_back(std::move(unit.object));
  return std::move(made_);
}

/// The first vote. It is the only one if all ranks have the same objects.
SharedBuild::Next SharedBuild::first_vote(const Result<Program>& program) {
  shapes::FingerprintBuilder held;
  bool all = true;
  if (program) {
    for (int u = 0; u < program->unit_count(); ++u) {
      Unit& unit = units_.emplace_back();
      unit.key = program->unit_key(u, tools_.toolchain_key);
      take_from_store(unit);
      all = all && !unit.object.empty();
      held.add(unit.key).add(unit.digest);
    }
  }
  const shapes::Fingerprint digest = held.finish();
  const RoundKey& key = next_key();
  Vote mine = Vote::of(all ? Vote::kOnes : 0, key.hash(), digest.high, digest.low);
  if (!program) mine.raise(VoteFlag::CompileFailed);
  const auto vote = driver_.vote_words(key, mine);
  if (!vote) return stop(vote.error());
  if (!program) return stop(program.error());
  if (vote->raised(VoteFlag::CompileFailed)) return Next::Stop;
  const bool same = vote->same_state() && vote->same_pending();
  return vote->entries() == Vote::kOnes && same ? Next::Complete : Next::GoOn;
}

/// Joins tables, and builds the units dealt to this rank, until every unit has a holder.
SharedBuild::Next SharedBuild::build_missing(const Program& program) {
  for (;;) {
    if (const Next next = join_table(); next != Next::GoOn) return next;
    const auto deal = deal_units(table_);
    if (deal.empty()) return Next::GoOn;
    bool hopeless = std::any_of(table_.begin(), table_.end(),
                                [](const auto& row) { return row.second.rejected; });
    for (const auto& [key, builder] : deal) hopeless = hopeless || !builder;
    if (hopeless) {
      for (const Unit& unit : units_)
        if (auto reason = cannot_be_built(table_[unit.key], unit)) return stop(*std::move(reason));
      return Next::Stop;
    }
    std::vector<std::size_t> mine;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (const auto dealt = deal.find(units_[u].key);
          dealt != deal.end() && dealt->second == self())
        mine.push_back(u);
    build(program, mine);
  }
}

/// Returns why this rank cannot build `unit`, if no rank can; nullopt if a peer reports the reason.
std::optional<Status> SharedBuild::cannot_be_built(const UnitRow& row, const Unit& unit) const {
  if (row.rejected)
    return unit.trouble && unit.trouble->code == Code::CompileError ? unit.trouble : std::nullopt;
  if (row.artifact || row.able.size() > row.failed.size()) return std::nullopt;
  return unit.trouble ? unit.trouble : tools_.no_toolchain;
}

SharedBuild::Next SharedBuild::join_table() {
  UnitTable mine;
  for (const Unit& unit : units_) {
    UnitRow& row = mine[unit.key];
    if (tools_.toolchain != nullptr) row.able = RankSet::of(self());
    if (unit.trouble) row.failed = RankSet::of(self());
    row.rejected = unit.trouble && unit.trouble->code == Code::CompileError;
    if (!unit.object.empty()) row.artifact = {self(), unit.object.size(), unit.digest};
  }
  const auto joined = driver_.tree_join(encode(mine), join_units);
  if (!joined) return stop(joined.error());
  auto table = decode_units(*joined);
  if (!table)
    return stop(internal_error(
        "the joined table of compile units cannot be read; check that all ranks run the "
        "same build"));
  table_ = std::move(*table);
  return Next::GoOn;
}

/// Takes the units dealt to this rank from its store, where another rank may have put them, or
/// builds them side by side.
void SharedBuild::build(const Program& program, const std::vector<std::size_t>& dealt) {
  std::vector<std::size_t> missing;
  for (const std::size_t number : dealt) {
    take_from_store(units_[number]);
    if (units_[number].object.empty()) missing.push_back(number);
  }
  std::vector<Result<Bytes>> objects(missing.size(), Bytes());
  std::mutex telling;
  tools_.side_by_side(static_cast<int>(missing.size()), [&](int k) {
    const std::size_t number = missing[static_cast<std::size_t>(k)];
    {
      const std::scoped_lock lock(telling);
      tools_.building(fmt::format("unit {} of {}", number, program.unit_count()));
    }
    objects[static_cast<std::size_t>(k)] = tools_.toolchain->build(program.units[number]);
  });
  for (std::size_t k = 0; k < missing.size(); ++k) {
    Unit& unit = units_[missing[k]];
    if (objects[k]) {
      ++made_.built;
      unit.object = *std::move(objects[k]);
      unit.digest = coordinator::content_digest(unit.object);
      keep(unit);
      continue;
    }
    unit.trouble = objects[k].error();
    if (driver_.group().size() > 1 && unit.trouble->code == Code::Environment)
      tools_.report(
          environment_error(fmt::format("leaves unit {} of {} to the other ranks: {}", missing[k],
                                        program.unit_count(), unit.trouble->message)));
  }
}

/// Requires that every unit has a holder and a digest. A rank that shares a store with the holder
/// takes the object from it; objects that some rank still lacks are broadcast.
SharedBuild::Next SharedBuild::distribute() {
  for (Unit& unit : units_) {
    if (has_agreed_object(unit)) continue;
    take_from_store(unit);
    if (!has_agreed_object(unit)) unit.object.clear();
  }
  const auto keys = lacking();
  if (!keys) return stop(keys.error());
  for (const shapes::Fingerprint& key : *keys) {
    const UnitArtifact& artifact = *table_[key].artifact;
    if (artifact.bytes > tools_.largest)
      return stop(environment_error(
          fmt::format("the object of a compile unit on rank {} has {} bytes, at most {} "
                      "are sent to ranks that lack it; give all ranks one "
                      "LOCKSTEP_CACHE_DIR on a shared file system",
                      named(artifact.holder), artifact.bytes, tools_.largest)));
    if (auto passed = pass_on(key, artifact); !passed) return stop(passed.error());
  }
  return made_.failure ? Next::Stop : Next::Complete;
}

/// Returns the units that some rank needs and lacks; equal on all ranks.
Result<std::vector<shapes::Fingerprint>> SharedBuild::lacking() {
  std::vector<shapes::Fingerprint> keys, out;
  for (const auto& [key, row] : table_) keys.push_back(key);
  for (std::size_t from = 0; from < keys.size(); from += kBits) {
    const std::size_t count = std::min(kBits, keys.size() - from);
    std::uint64_t have = Vote::kOnes;
    for (std::size_t i = 0; i < count; ++i)
      if (const Unit* unit = find(keys[from + i]); unit != nullptr && unit->object.empty())
        have &= ~(std::uint64_t{1} << i);
    const RoundKey& key = next_key();
    const auto vote = driver_.vote_words(key, Vote::of(have, key.hash(), 0, 0));
    if (!vote) return vote.error();
    for (std::size_t i = 0; i < count; ++i)
      if ((vote->entries() >> i & 1) == 0) out.push_back(keys[from + i]);
  }
  return out;
}

/// Broadcasts one object to all ranks of the group, whether they need it or not.
Result<void> SharedBuild::pass_on(const shapes::Fingerprint& key, const UnitArtifact& artifact) {
  Unit* unit = find(key);
  const auto bytes =
      driver_.broadcast(artifact.holder, artifact.holder == self() ? unit->object : Bytes{});
  if (!bytes) return bytes.error();
  if (unit != nullptr && unit->object.empty()) receive(*unit, artifact, *bytes);
  return {};
}

/// A rank that receives other bytes than agreed rejects them, and takes part in the following
/// rounds. Its peers learn of this failure by the commit vote.
void SharedBuild::receive(Unit& unit, const UnitArtifact& artifact, const Bytes& bytes) {
  const std::string digest = coordinator::content_digest(bytes);
  if (digest != artifact.digest) {
    made_.failure = environment_error(
        fmt::format("the object that came from rank {} is not the one that the ranks "
                    "agreed on (SHA-256 {}…, agreed {}…), so nothing of it was "
                    "loaded; check that host's memory and network",
                    named(artifact.holder), digest.substr(0, 16), artifact.digest.substr(0, 16)));
    return;
  }
  unit.object = bytes;
  unit.digest = digest;
  ++made_.received;
  keep(unit);
}

void SharedBuild::take_from_store(Unit& unit) {
  if (tools_.store == nullptr) return;
  auto kept = tools_.store->load(unit.key);
  if (!kept) return tools_.report(kept.error());
  if (!*kept) return;
  unit.object = **std::move(kept);
  unit.digest = coordinator::content_digest(unit.object);
}

void SharedBuild::keep(const Unit& unit) {
  if (tools_.store == nullptr) return;
  if (auto stored = tools_.store->store(unit.key, unit.object); !stored)
    tools_.report(stored.error());
}

Unit* SharedBuild::find(const shapes::Fingerprint& key) {
  const auto unit =
      std::find_if(units_.begin(), units_.end(), [&](const Unit& u) { return u.key == key; });
  return unit == units_.end() ? nullptr : &*unit;
}

/// True if this rank has the object that the ranks agreed on.
bool SharedBuild::has_agreed_object(const Unit& unit) const {
  const auto row = table_.find(unit.key);
  return !unit.object.empty() && row != table_.end() && row->second.artifact &&
         unit.digest == row->second.artifact->digest;
}

}  // namespace

SharedUnits build_together(CallDriver& driver, RoundKey key, const Result<Program>& program,
                           const BuildTools& tools) {
  return SharedBuild(driver, std::move(key), tools).run(program);
}

}  // namespace lockstep::worker
