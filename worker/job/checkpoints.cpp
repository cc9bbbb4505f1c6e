
#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/job/checkpoints.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {
namespace {

/// Joins payloads that have a text per rank, in rank order.
Bytes append_payloads(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  Bytes out(lower.begin(), lower.end());
  out.insert(out.end(), higher.begin(), higher.end());
  return out;
}

using Learnt = std::map<std::string, coordinator::Profile>;

/// The profiles as text: one word per frame.
std::string learnt_text(const Learnt& learnt) {
  std::string out;
  for (const auto& [frame, profile] : learnt) {
    coordinator::KeptProfile kept;
    kept.frame.name = frame, kept.profile = profile;
    out += hex_of(encode(kept)) + " ";
  }
  return out;
}
std::optional<Learnt> learnt_in(std::string_view text) {
  Learnt out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const auto bytes = bytes_of_hex(text.substr(0, end));
    if (!bytes) return std::nullopt;
    auto kept = coordinator::decode_profile(*bytes);
    // A profile of another version is left out: the frame learns its sizes again.
    if (kept) out.insert_or_assign(kept->frame.name, std::move(kept->profile));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

/// The ranks of the job, as checkpoints see them. Votes are rounds of the job.
class Checkpoints::JobRanks final : public CheckpointRanks {
 public:
  explicit JobRanks(Job& job) : job_(job), context_(job.context()) {}

  [[nodiscard]] Rank rank() const override { return Rank{job_.rank()}; }
  [[nodiscard]] int size() const override { return job_.size(); }
  [[nodiscard]] Result<bool> any(bool mine, const std::optional<Status>& failed) override {
    return rounds().any_rank(context_.everyone.round(RoundKey::Kind::More), mine, status(failed));
  }
  [[nodiscard]] Result<void> settle(const std::optional<Status>& failed) override {
    return rounds().status_round(context_.everyone.round(RoundKey::Kind::Settle), status(failed));
  }
  [[nodiscard]] Result<std::vector<Bytes>> all_gather(Bytes mine) override;
  [[nodiscard]] Result<void> talk(collectives::TreeTalk& mine) override {
    return rounds().driver().talk(mine);
  }
  void report_busy() override {
    constexpr std::chrono::milliseconds kOften{100};
    constexpr std::chrono::seconds kLong{10};
    const Instant now = context_.clock.now();
    if (now - said_ < kOften) return;
    said_ = now;
    context_.busy_for(kLong);
  }

 private:
  [[nodiscard]] GroupRounds& rounds() const { return *context_.everyone.rounds; }
  static RankStatus status(const std::optional<Status>& failed) {
    RankStatus out;
    out.local_error = failed;
    return out;
  }
  Job& job_;
  JobContext& context_;
  Instant said_{0};
};

Result<std::vector<Bytes>> Checkpoints::JobRanks::all_gather(Bytes mine) {
  ByteWriter word;
  word.text({reinterpret_cast<const char*>(mine.data()), mine.size()});
  const auto all = rounds().driver().tree_join(std::move(word).take(), append_payloads);
  if (!all) return all.error();
  std::vector<Bytes> out;
  ByteReader in(*all);
  while (in.ok() && !in.at_end()) {
    const std::string text = in.text();
    const auto bytes = std::as_bytes(std::span(text));
    out.emplace_back(bytes.begin(), bytes.end());
  }
  if (!in.ok() || static_cast<int>(out.size()) != size())
    return internal_error("what the ranks told each other came damaged.");
  return out;
}

Checkpoints::Checkpoints(Job& job, std::string folder, CheckpointOptions options)
    : job_(job),
      folder_(std::move(folder)),
      ranks_(std::make_unique<JobRanks>(job)),
      saver_(std::make_unique<CheckpointSaver>(*ranks_, folder_, std::move(options))) {}

Checkpoints::~Checkpoints() = default;

void Checkpoints::add_learnt(StateLeaves& leaves) {
  Learnt& learnt = job_.context().learnt;
  leaves.enter_field("lockstep.frames");
  leaves.add(ValueKind::Text, learnt_text(learnt), false,
             [&learnt](const std::string& text) -> ValueSetter {
               auto read = learnt_in(text);
               if (!read) return {};
               return [&learnt, read] { learnt = *read; };
             });
  leaves.leave();
}

bool Checkpoints::runs() const { return job_.context().runs(); }

Result<Turn> Checkpoints::enter(std::string_view call) const {
  return job_.context().turns.take(call);
}

Result<void> Checkpoints::finish() {
  const auto turn = enter("Checkpoints::finish()");
  if (!turn) return turn.error();
  if (!runs()) return {};
  return told(saver_->finish());
}

void Checkpoints::tell_news() {
  if (job_.rank() != 0) return;
  const Log& log = job_.context().log;
  if (const auto saved = saver_->last_committed(); saved != told_committed_) {
    told_committed_ = saved;
    log.line("info",
             "lockstep: checkpoint of step " + std::to_string(*saved) + " saved in " + folder_);
  }
  if (const auto& failure = saver_->last_failure(); failure != told_failure_) {
    told_failure_ = failure;
    if (failure) log.line("info", "lockstep: " + failure->text());
  }
}

}  // namespace lockstep::worker
