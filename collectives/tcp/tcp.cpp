#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_data.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {
namespace {

/// One group over the connections of the job.
class Tcp final : public Communicator {
 public:
  Tcp(std::shared_ptr<TcpMesh> mesh, Watch* watch, TcpGroup group)
      : mesh_(std::move(mesh)),
        watch_(watch),
        group_(std::move(group)),
        hosts_(mesh_->hosts(group_.ranks)),
        data_(group_) {}

  void joins_board(const RankSet& members, std::string_view name) {
    if (watch_ != nullptr) entry_ = watch_->board().entry(group_.id, members, name);
  }
  [[nodiscard]] Rank rank() const override { return group_.self; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_.ranks.size()); }
  [[nodiscard]] std::string name() const override { return "tcp"; }
  [[nodiscard]] const HostRuns* hosts() const override { return &hosts_; }
  void start(Round& round) override;
  [[nodiscard]] Result<void> start(const Collective& collective) override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override;
  [[nodiscard]] Result<bool> poll() override;
  [[nodiscard]] Result<void> wait() override;

 private:
  void begin(OperationKind kind);
  [[nodiscard]] Result<bool> advance_round();
  [[nodiscard]] Result<bool> advance(bool only_data);
  [[nodiscard]] Result<void> wait(bool only_data);
  [[nodiscard]] std::optional<Status> hear(Rank peer, TcpMesh::Message message);
  [[nodiscard]] std::optional<Status> peer_that_left() const;
  Status fail(Status status);
  [[nodiscard]] Rank named(Rank peer) const {
    return group_.ranks[static_cast<std::size_t>(peer.value)];
  }
  [[nodiscard]] bool bare() const { return round_->message_bytes() != 0; }

  std::shared_ptr<TcpMesh> mesh_;
  Watch* watch_;
  TcpGroup group_;
  HostRuns hosts_;
  int entry_ = -1;
  std::uint64_t begun_ = 0;
  std::optional<OperationKind> unseen_;  // kind of a round that the board does not show yet
  OperationKind last_ = OperationKind::None;
  SystemClock clock_;
  Round* round_ = nullptr;
  bool said_ = false;  // the message that the round wants to send now is queued
  TcpData data_;
  std::optional<Status> failure_;
};

void Tcp::begin(OperationKind kind) {
  ++begun_;
  last_ = kind;
  if (watch_ != nullptr) watch_->seat().begin(kind, entry_, begun_, clock_.now());
}

// Ends the job, because all groups share its connections.
Status Tcp::fail(Status status) {
  if (watch_ != nullptr && status.groups.empty())
    status.groups = last_seen(watch_->board().snapshot(), clock_.now());
  failure_ = status;
  if (watch_ != nullptr) watch_->end_job(status);
  return status;
}

void Tcp::start(Round& round) {
  if (failure_) return;
  unseen_ = round.message_bytes() != 0 ? OperationKind::Vote : OperationKind::Exchange;
  round_ = &round;
  said_ = false;
  if (auto moved = advance_round(); !moved) failure_ = moved.error();
}

Result<void> Tcp::start(const Collective& collective) {
  if (failure_) return *failure_;
  if (auto ok = check(collective, size()); !ok) return ok;
  if (watch_ != nullptr && !collective.label.empty())
    watch_->seat().note(collective.label, clock_.now());
  begin(static_cast<OperationKind>(static_cast<int>(OperationKind::AllToAll) +
                                   static_cast<int>(collective.kind)));
  data_.start(collective);
  if (auto moved = data_.advance(); !moved) return *(failure_ = moved.error());
  return {};
}

Result<void> Tcp::run(const Collective& collective) {
  if (auto started = start(collective); !started) return started;
  return wait(true);
}

/// Gives the peer's message to the round; returns an error if the message belongs to another round.
std::optional<Status> Tcp::hear(Rank peer, TcpMesh::Message message) {
  const bool theirs = message.kind == Part::Kind::Bare;
  if (theirs != bare())
    return internal_error(
        fmt::format("Rank {} is in {} while rank {} is in {}: they are not at the same point of "
                    "the program.",
                    named(peer).value, theirs ? "a vote" : "an exchange", named(group_.self).value,
                    theirs ? "an exchange" : "a vote"));
  if (bare() && message.bytes.size() != round_->message_bytes())
    return internal_error(fmt::format("Rank {} sent {} bytes where a message has {}.",
                                      named(peer).value, message.bytes.size(),
                                      round_->message_bytes()));
  round_->received(message.bytes);
  said_ = false;
  return std::nullopt;
}

Result<bool> Tcp::advance_round() {
  while (round_ != nullptr) {
    const Round::Want want = round_->want();
    if (want.need == Round::Need::Done) {
      round_ = nullptr;
      break;
    }
    if (want.need != Round::Need::Receive && !said_) {
      mesh_->send(named(want.peer), group_.id, bare() ? Part::Kind::Bare : Part::Kind::Payload,
                  round_->outgoing());
      said_ = true;
    }
    if (want.need == Round::Need::Send) {
      if (!mesh_->up(named(want.peer))) return false;
      round_->sent();
      said_ = false;
      continue;
    }
    auto message = mesh_->take(named(want.peer), group_.id, Part::Kind::Bare);
    if (!message) return false;
    if (auto wrong = hear(want.peer, *std::move(message))) return *wrong;
  }
  return true;
}

Result<bool> Tcp::advance(bool only_data) {
  if (failure_) return *failure_;
  const auto round_done = advance_round();
  if (!round_done) return *(failure_ = round_done.error());
  const auto data_done = data_.advance();
  if (!data_done) return *(failure_ = data_done.error());
  return *data_done && (only_data || *round_done);
}

/// An error if a peer that this rank waits for has made a clean exit; else nullopt.
std::optional<Status> Tcp::peer_that_left() const {
  std::vector<Rank> awaited = data_.awaited();
  if (round_ != nullptr && round_->want().need != Round::Need::Done)
    awaited.push_back(round_->want().peer);
  for (const Rank peer : awaited)
    if (mesh_->finished(named(peer)))
      return Status{
          Code::Stuck,
          fmt::format("Rank {} has finished the job and will not come to the {}, in which "
                      "rank {} waits.",
                      named(peer).value, operation_name(last_), named(group_.self).value),
          ""};
  return std::nullopt;
}

Result<bool> Tcp::poll() {
  if (failure_) return *failure_;
  if (auto done = advance(false); !done || *done) return done;
  if (auto moved = mesh_->move(); !moved) return fail(moved.error());
  return advance(false);
}

Result<void> Tcp::wait() { return wait(false); }

// The board shows a round only once this rank waits for it, as in the MPI backend.
Result<void> Tcp::wait(bool only_data) {
  if (!only_data) {
    if (unseen_) begin(*unseen_);
    unseen_.reset();
  }
  if (auto done = advance(only_data); !done || *done)
    return done ? Result<void>{} : Result<void>{done.error()};
  if (watch_ != nullptr) watch_->seat().resume(last_, entry_, begun_);
  const Watch::Armed armed(watch_);
  const Instant began = clock_.now();
  while (true) {
    if (auto moved = mesh_->wait(clock_.now() - began); !moved) return fail(moved.error());
    const auto done = advance(only_data);
    if (!done) return done.error();
    if (*done) return {};
    if (auto left = peer_that_left()) return fail(*std::move(left));
  }
}

Result<std::unique_ptr<Communicator>> make(std::shared_ptr<TcpMesh> mesh, Watch* watch,
                                           const RankSet& members, std::uint64_t id,
                                           std::string_view name) {
  TcpGroup group{mesh.get(), id, {}, {}};
  for (const Rank rank : members) {
    if (rank.value == mesh->rank().value)
      group.self = {static_cast<std::int32_t>(group.ranks.size())};
    group.ranks.push_back(rank);
  }
  auto made = std::make_unique<Tcp>(std::move(mesh), watch, std::move(group));
  made->joins_board(members, name);
  return std::unique_ptr<Communicator>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<Communicator>> tcp_communicator(std::shared_ptr<TcpMesh> mesh,
                                                       Watch* watch) {
  const RankSet all = RankSet::all(mesh->size());
  return make(std::move(mesh), watch, all, kWorldGroup, "");
}

Result<std::unique_ptr<Communicator>> tcp_group(std::shared_ptr<TcpMesh> mesh, Watch* watch,
                                                const RankSet& members, std::uint64_t group,
                                                std::string_view name) {
  if (!members.contains(mesh->rank()))
    return bad_input(fmt::format("Rank {} is not a member of the group of ranks {}.",
                                 mesh->rank().value, members.text()));
  return make(std::move(mesh), watch, members, group, name);
}

}  // namespace lockstep::collectives
