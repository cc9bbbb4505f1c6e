#include <exception>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

#include <lockstep/collectives/nccl/nccl.h>
#include <lockstep/collectives/nccl/nccl_library.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {
namespace {

/// How elements are sent: as their own type, or as bytes if NCCL has no such type.
struct Element {
  ncclDataType_t type = ncclUint8;
  std::int64_t count = 1;  // number of values of `type` per element
};

Element element(DType dtype) {
  switch (dtype) {
    case DType::Bool:  // 0 or 1, so that minimum and maximum are "and" and "or"
    case DType::U8:
      return {ncclUint8};
    case DType::I8:
      return {ncclInt8};
    case DType::I16:
      return {ncclUint8, 2};  // sent, never reduced: see start()
    case DType::I32:
      return {ncclInt32};
    case DType::I64:
      return {ncclInt64};
    case DType::F16:
      return {ncclFloat16};
    case DType::BF16:
      return {ncclBfloat16};
    case DType::F32:
      return {ncclFloat32};
    case DType::F64:
      return {ncclFloat64};
  }
  return {};
}

ncclRedOp_t operation(Reduce reduce) {
  switch (reduce) {
    case Reduce::Sum:
      return ncclSum;
    case Reduce::Min:
      return ncclMin;
    case Reduce::Max:
      return ncclMax;
  }
  return ncclSum;
}

/// A call of NCCL, and its result.
struct Answer {
  const char* call = "";
  ncclResult_t result = ncclSuccess;
};

class Nccl final : public DeviceData {
 public:
  explicit Nccl(NcclOptions options) : options_(std::move(options)) {}
  ~Nccl() override;
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] Result<void> connect();

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<void> start(const Collective& collective) override;
  [[nodiscard]] Result<void> poll() override;
  void abort() override;

 private:
  void begin(OperationKind kind, std::string_view event);
  [[nodiscard]] Answer issue(const Collective& c);
  [[nodiscard]] Answer all_to_all(const Collective& c);
  /// `where` is the purpose of the call; errors name it after the device.
  [[nodiscard]] Result<void> settle(const Answer& answer, const std::string& where);
  [[nodiscard]] Result<bool> settled(const char* call, const std::string& where);
  [[nodiscard]] Status late(const char* call, const std::string& where);
  /// Ends the communicator and shows the reason on the board, where peers that wait for this rank
  /// find it for their report.
  Status fail(Status status);

  NcclOptions options_;
  NcclLibrary nccl_;
  std::string name_;
  ncclComm_t comm_ = nullptr;
  std::uint64_t begun_ = 0;  // number of operations begun; equal on all ranks
  std::optional<Status> failure_;
  SystemClock clock_;
};

Nccl::~Nccl() {
  // If nothing but the communicator was begun, does not wait: a peer may have failed to begin it.
  if (comm_ != nullptr && (begun_ == 1 || std::uncaught_exceptions() > 0)) abort();
  if (comm_ == nullptr) return;
  begin(OperationKind::Exchange, "ends NCCL");
  // If settle() fails, it has aborted the communicator. A destructor cannot report that.
  if (settle({"ncclCommFinalize", nccl_.finalize(comm_)}, "")) nccl_.destroy(comm_);
}

void Nccl::begin(OperationKind kind, std::string_view event) {
  ++begun_;
  if (options_.watch == nullptr) return;
  Seat& seat = options_.watch->seat();
  if (!event.empty()) seat.note(event, clock_.now());
  seat.begin(kind, options_.board_entry, begun_, clock_.now());
}

Result<void> Nccl::connect() {
  if (options_.size < 1 || options_.rank < 0 || options_.rank >= options_.size)
    return bad_input(
        fmt::format("{} is rank {} of a group of {}, which there cannot "
                    "be; give ranks of the group, from 0 up",
                    options_.device_name, options_.rank, options_.size));
  auto loaded = NcclLibrary::load(options_.device_name);
  if (!loaded) return loaded.error();
  nccl_ = *loaded;
  auto named = nccl_.name(options_.device_name);
  if (!named) return named.error();
  name_ = *std::move(named);

  begin(OperationKind::Exchange, "connects NCCL");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id{};
  std::copy(options_.id.begin(), options_.id.end(), id.internal);
  const Answer answer{"ncclCommInitRankConfig",
                      nccl_.init_rank(&comm_, options_.size, id, options_.rank, &config)};
  if (auto done = settle(answer, ""); !done) return done;

  int ordinal = -1;
  if (const auto result = nccl_.device(comm_, &ordinal); result != ncclSuccess)
    return fail(nccl_.failure("ncclCommCuDevice", options_.device_name, "", result));
  if (ordinal != options_.ordinal)
    return fail(
        internal_error(fmt::format("NCCL took CUDA device {} for {}, whose ordinal is {}: its "
                                   "context was not current on this thread",
                                   ordinal, options_.device_name, options_.ordinal)));
  options_.give_up = nullptr;  // what it captures need not live longer
  return {};
}

Result<void> Nccl::start(const Collective& c) {
  if (failure_) return *failure_;
  if (auto ok = check(c, options_.size); !ok) return ok;
  const std::string where =
      fmt::format(", in {}{}{}", collective_name(c.kind), c.label.empty() ? "" : " ", c.label);
  if (c.dtype == DType::I16 &&
      (c.kind == Collective::Kind::AllReduce || c.kind == Collective::Kind::ReduceScatter))
    return bad_input(fmt::format("{}{}: NCCL does not reduce i16; cast to i32 first",
                                 options_.device_name, where));
  if (auto ok = poll(); !ok) return ok;
  begin(static_cast<OperationKind>(static_cast<int>(OperationKind::AllToAll) +
                                   static_cast<int>(c.kind)),
        c.label);
  const CollectiveExtent extent = CollectiveExtent::of(c, options_.size);
  if (extent.send == 0 && extent.receive == 0) return {};
  return settle(issue(c), where);
}

Result<void> Nccl::poll() {
  if (failure_) return *failure_;
  auto done = settled("ncclCommGetAsyncError", "");
  if (!done) return done.error();
  return {};
}

void Nccl::abort() {
  if (!failure_)
    failure_ = Status{Code::Gone, fmt::format("NCCL was ended on {}", options_.device_name)};
  if (comm_ != nullptr) nccl_.abort(comm_);
  comm_ = nullptr;
}

Answer Nccl::issue(const Collective& c) {
  const Element e = element(c.dtype);
  const auto count = static_cast<std::size_t>(c.rows * c.row_elements * e.count);
  const auto stream = static_cast<cudaStream_t>(options_.stream);
  switch (c.kind) {
    case Collective::Kind::AllToAll:
      return all_to_all(c);
    case Collective::Kind::AllReduce:
      return {"ncclAllReduce", nccl_.all_reduce(c.send, c.receive, count, e.type,
                                                operation(c.reduce), comm_, stream)};
    case Collective::Kind::AllGather:
      return {"ncclAllGather", nccl_.all_gather(c.send, c.receive, count, e.type, comm_, stream)};
    case Collective::Kind::ReduceScatter:
      return {"ncclReduceScatter", nccl_.reduce_scatter(c.send, c.receive, count, e.type,
                                                        operation(c.reduce), comm_, stream)};
    case Collective::Kind::Broadcast:
      return {"ncclBroadcast",
              nccl_.broadcast(c.receive, c.receive, count, e.type, c.root.value, comm_, stream)};
  }
  return {};
}

/// One group of sends and receives, also for the rank's own block. Two ranks that have no rows for
/// each other both leave out the pair.
Answer Nccl::all_to_all(const Collective& c) {
  const Element e = element(c.dtype);
  const auto stream = static_cast<cudaStream_t>(options_.stream);
  const auto row_bytes = static_cast<std::size_t>(c.row_elements) * dtype_size(c.dtype);
  const auto* from = static_cast<const std::byte*>(c.send);
  auto* to = static_cast<std::byte*>(c.receive);
  Answer answer{"ncclGroupStart", nccl_.group_start()};
  if (!taken(answer.result)) return answer;
  for (int peer = 0; peer < options_.size && taken(answer.result); ++peer) {
    const auto sent = static_cast<std::size_t>(c.send_rows[static_cast<std::size_t>(peer)]);
    const auto received = static_cast<std::size_t>(c.receive_rows[static_cast<std::size_t>(peer)]);
    const auto count = [&](std::size_t rows) {
      return rows * static_cast<std::size_t>(c.row_elements * e.count);
    };
    if (sent > 0) answer = {"ncclSend", nccl_.send(from, count(sent), e.type, peer, comm_, stream)};
    if (received > 0 && taken(answer.result))
      answer = {"ncclRecv", nccl_.receive(to, count(received), e.type, peer, comm_, stream)};
    from += sent * row_bytes;
    to += received * row_bytes;
  }
  // Ends the group even after a failure: otherwise later calls of this thread would belong to it.
  const Answer ended{"ncclGroupEnd", nccl_.group_end()};
  return taken(answer.result) ? ended : answer;
}

/// Checks the communicator once. True if all work so far is on the stream.
Result<bool> Nccl::settled(const char* call, const std::string& where) {
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t asked = nccl_.async_error(comm_, &state); asked != ncclSuccess)
    return fail(nccl_.failure("ncclCommGetAsyncError", options_.device_name, where, asked));
  if (!taken(state)) return fail(nccl_.failure(call, options_.device_name, where, state));
  return state == ncclSuccess;
}

/// Waits until the call is done. After ncclInProgress a nonblocking communicator works on a thread
/// of its own. Until this work is done no other call is allowed, and later work on the stream would
/// overtake it.
Result<void> Nccl::settle(const Answer& answer, const std::string& where) {
  if (!taken(answer.result))
    return fail(nccl_.failure(answer.call, options_.device_name, where, answer.result));
  if (answer.result == ncclSuccess) return {};
  const bool asked = begun_ == 1 && options_.give_up;
  const Watch::Armed armed(asked ? nullptr : options_.watch);
  const Instant begun = clock_.now();
  for (;;) {
    using namespace std::chrono_literals;
    auto done = settled(answer.call, where);
    if (!done) return done.error();
    if (*done) return {};
    if (options_.poke) options_.poke();
    if (failure_) return *failure_;
    if (asked && options_.give_up())
      return fail(Status{Code::Gone, fmt::format("{} gave up on {}, as another rank has",
                                                 answer.call, options_.device_name)});
    const Duration waited = clock_.now() - begun;
    if (waited > options_.deadline) return fail(late(answer.call, where));
    if (waited > 2ms)
      std::this_thread::sleep_for(waited > 100ms ? 500us : 50us);
    else if (waited > 50us)
      ::sched_yield();
  }
}

Status Nccl::late(const char* call, const std::string& where) {
  Status status{
      Code::Stuck,
      fmt::format("{} has not ended on {}{} for {:g} s: not all {} ranks have come to it, "
                  "or their devices do not reach each other",
                  call, options_.device_name, where,
                  std::chrono::duration<double>(options_.deadline).count(), options_.size)};
  if (options_.watch != nullptr)
    status.groups = last_seen(options_.watch->board().snapshot(), clock_.now());
  return status;
}

Status Nccl::fail(Status status) {
  failure_ = std::move(status);
  if (options_.watch != nullptr) options_.watch->seat().note(failure_->message, clock_.now());
  abort();
  return *failure_;
}

}  // namespace

Result<std::string> nccl_name(Rank rank) {
  const std::string who = fmt::format("rank {}", rank.value);
  const auto library = NcclLibrary::load(who);
  if (!library) return library.error();
  return library->name(who);
}

Result<NcclId> nccl_unique_id(Rank rank) {
  const std::string who = fmt::format("rank {}", rank.value);
  const auto library = NcclLibrary::load(who);
  if (!library) return library.error();
  ncclUniqueId made{};
  if (const ncclResult_t result = library->unique_id(&made); result != ncclSuccess)
    return library->failure("ncclGetUniqueId", who, "", result);
  NcclId id{};
  static_assert(sizeof made.internal == sizeof id);
  std::copy(std::begin(made.internal), std::end(made.internal), id.begin());
  return id;
}

Result<std::unique_ptr<DeviceData>> connect_nccl(NcclOptions options) {
  auto data = std::make_unique<Nccl>(std::move(options));
  if (auto done = data->connect(); !done) return done.error();
  return std::unique_ptr<DeviceData>(std::move(data));
}

}  // namespace lockstep::collectives
