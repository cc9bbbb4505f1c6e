#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include <sched.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/mpi_call.h>
#include <lockstep/collectives/mpi_control.h>
#include <lockstep/collectives/mpi_data.h>

namespace lockstep::collectives {
namespace {

Rank rank_in(MPI_Comm comm) {
  Rank rank;
  MPI_Comm_rank(comm, &rank.value);
  return rank;
}

/// Owns both communicators. No data is sent on `control`, so control messages and data cannot be
/// mixed up.
class Mpi final : public Communicator {
 public:
  /// `members`: the numbers by which errors name the ranks, in the order of both communicators.
  Mpi(MPI_Comm control, MPI_Comm data, const RankSet& members, const MpiOptions& options)
      : comms_{control, data},
        members_(members),
        rank_(rank_in(control)),
        size_(static_cast<int>(members.size())),
        options_(options),
        watch_(options.watch),
        control_(control, members, options.longest_payload),
        data_(data, size_) {}
  ~Mpi() override;

  void joins_board(std::uint64_t group, std::string_view name) {
    if (watch_ != nullptr) entry_ = watch_->board().entry(group, members_, name);
  }
  [[nodiscard]] MPI_Comm data_comm() const { return comms_[1]; }
  [[nodiscard]] const MpiOptions& options() const { return options_; }

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return "mpi"; }
  void start(Round& round) override;
  [[nodiscard]] Result<void> start(const Collective& collective) override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override {
    return start(collective);
  }
  [[nodiscard]] Result<bool> poll() override;
  [[nodiscard]] Result<void> wait() override;

 private:
  void begin(OperationKind kind);
  [[nodiscard]] Result<bool> advance();
  /// Ends the job: after an error MPI cannot go on. Returns only in tests that replace the end of
  /// the process.
  Status fail(Status status);

  MPI_Comm comms_[2];
  RankSet members_;
  Rank rank_;
  int size_;
  MpiOptions options_;
  Watch* watch_;
  int entry_ = -1;
  std::uint64_t begun_ = 0;
  std::optional<OperationKind> unseen_;  // kind of a round that the board does not show yet
  OperationKind last_ = OperationKind::None;
  SystemClock clock_;
  MpiControl control_;
  MpiData data_;
  std::optional<Status> failure_;
};

// Frees the communicators only if nothing failed and no exception unwinds the stack, because
// freeing is collective.
Mpi::~Mpi() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised || failure_ || control_.under_way() || std::uncaught_exceptions() > 0) return;
  data_.release();
  for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
}

void Mpi::begin(OperationKind kind) {
  ++begun_;
  last_ = kind;
  if (watch_ != nullptr) watch_->seat().begin(kind, entry_, begun_, clock_.now());
}

Status Mpi::fail(Status status) {
  failure_ = status;
  if (watch_ != nullptr) {
    watch_->end_job(status);
  } else {
    std::fprintf(stderr, "lockstep: rank %d: %s\n", rank_.value, status.text().c_str());
    MPI_Abort(comms_[0], exit_code(status.code));
  }
  return status;
}

void Mpi::start(Round& round) {
  if (failure_) return;
  unseen_ = round.message_bytes() != 0 ? OperationKind::Vote : OperationKind::Exchange;
  control_.start(round);
  if (auto moved = advance(); !moved) failure_ = moved.error();
}

// Blocks inside MPI, where a round under way does not advance. The round need not advance: no rank
// waits for it before this collective.
Result<void> Mpi::start(const Collective& collective) {
  if (failure_) return *failure_;
  if (auto ok = check(collective, size_); !ok) return ok;
  if (auto ok = data_.fits(collective); !ok) return ok;
  if (watch_ != nullptr && !collective.label.empty())
    watch_->seat().note(collective.label, clock_.now());
  begin(static_cast<OperationKind>(static_cast<int>(OperationKind::AllToAll) +
                                   static_cast<int>(collective.kind)));
  const Watch::Armed armed(watch_);
  if (const int rc = data_.run(collective); rc != MPI_SUCCESS)
    return fail(internal_error(mpi_failure(
        fmt::format("MPI, in {} {},", collective_name(collective.kind), collective.label), rc)));
  return {};
}

Result<bool> Mpi::poll() {
  if (failure_) return *failure_;
  return advance();
}

// If a peer is in another round, this communicator fails; if MPI itself fails, the job ends.
Result<bool> Mpi::advance() {
  auto moved = control_.advance();
  if (moved) return moved;
  if (control_.transport_failed()) return fail(moved.error());
  failure_ = moved.error();
  return moved;
}

// The board shows a round only once this rank waits for it. So ranks that started the round at
// different places of the program count their operations alike.
//
// Spinning makes a vote fast; a partner that takes more than 50 us probably needs this core.
Result<void> Mpi::wait() {
  using namespace std::chrono_literals;
  if (unseen_) begin(*unseen_);
  unseen_.reset();
  if (auto done = poll(); !done || *done) return done ? Result<void>{} : Result<void>{done.error()};
  // Another group's operation may have begun since this operation did.
  if (watch_ != nullptr) watch_->seat().resume(last_, entry_, begun_);
  const Watch::Armed armed(watch_);
  const Instant begun = clock_.now();
  Duration waited{0};
  for (unsigned polls = 1;; ++polls) {
    auto done = poll();
    if (!done) return done.error();
    if (*done) return {};
    if (polls % 32 == 0 || waited > 50us) waited = clock_.now() - begun;
    if (waited > 2ms)
      std::this_thread::sleep_for(waited > 100ms ? 500us : 50us);
    else if (waited > 50us)
      ::sched_yield();
  }
}

Result<std::unique_ptr<Communicator>> make(MPI_Comm control, const RankSet& members,
                                           std::uint64_t group, std::string_view name,
                                           const MpiOptions& options) {
  MPI_Comm data = MPI_COMM_NULL;
  if (const int rc = MPI_Comm_dup(control, &data); rc != MPI_SUCCESS)
    return environment_error(mpi_failure("MPI_Comm_dup", rc));
  MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(data, MPI_ERRORS_RETURN);
  auto made = std::make_unique<Mpi>(control, data, members, options);
  made->joins_board(group, name);
  return std::unique_ptr<Communicator>(std::move(made));
}

std::vector<int> each_of(const RankSet& members) {
  std::vector<int> ranks;
  for (const Rank rank : members) ranks.push_back(rank.value);
  return ranks;
}

}  // namespace

Result<std::unique_ptr<Communicator>> mpi_communicator(const void* comm,
                                                       const MpiOptions& options) {
  MPI_Comm control = MPI_COMM_NULL;
  if (const int rc = MPI_Comm_dup(comm_of(comm), &control); rc != MPI_SUCCESS)
    return environment_error(mpi_failure("MPI_Comm_dup", rc));
  int size = 0;
  MPI_Comm_size(control, &size);
  return make(control, RankSet::all(size), kWorldGroup, "", options);
}

Result<std::unique_ptr<Communicator>> mpi_group(const Communicator& all, const RankSet& members,
                                                std::uint64_t group, std::string_view name) {
  const auto* parent = dynamic_cast<const Mpi*>(&all);
  if (parent == nullptr)
    return bad_input("A group is made of ranks that talk through MPI; these do not.");
  if (!members.contains(all.rank()))
    return bad_input(fmt::format("Rank {} is not a member of the group of ranks {}.",
                                 all.rank().value, members.text()));
  const std::vector<int> ranks = each_of(members);
  MPI_Group every = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm control = MPI_COMM_NULL;
  MPI_Comm_group(parent->data_comm(), &every);
  MPI_Group_incl(every, static_cast<int>(ranks.size()), ranks.data(), &some);
  const int rc =
      MPI_Comm_create_group(parent->data_comm(), some, static_cast<int>(group % 32768), &control);
  MPI_Group_free(&some);
  MPI_Group_free(&every);
  if (rc != MPI_SUCCESS) return environment_error(mpi_failure("MPI_Comm_create_group", rc));
  return make(control, members, group, name, parent->options());
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string line(text.data());
  line.resize(std::min(line.find('\n'), line.size()));
  std::ranges::replace(line, '\t', ' ');
  return line;
}

int mpi_processes() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

}  // namespace lockstep::collectives
