#include "meeting.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/collectives/base/half.h>

namespace lockstep::emulated {
namespace {

template <class T>
void reduce_as(Block& into, const Block& from, std::int32_t operation) {
  for (std::size_t at = 0; at + sizeof(T) <= into.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into.data() + at, sizeof a);
    std::memcpy(&b, from.data() + at, sizeof b);
    if (operation == ncclSum) a = static_cast<T>(a + b);
    if (operation == ncclMin) a = std::min(a, b);
    if (operation == ncclMax) a = std::max(a, b);
    std::memcpy(into.data() + at, &a, sizeof a);
  }
}

/// Rounded after each rank, as NCCL rounds between its steps.
void reduce_halves(Block& into, const Block& from, const Operation& operation, DType dtype) {
  const std::size_t count = into.size() / sizeof(std::uint16_t);
  std::vector<std::uint16_t> halves(count);
  std::vector<float> wide(count), other(count);
  const auto widened = [&](const Block& block, std::vector<float>& to) {
    std::memcpy(halves.data(), block.data(), count * sizeof(std::uint16_t));
    widen_halves(dtype, halves.data(), to.data(), static_cast<std::int64_t>(count));
  };
  widened(into, wide);
  widened(from, other);
  for (std::size_t i = 0; i < count; ++i)
    wide[i] = operation.reduce == ncclSum   ? wide[i] + other[i]
              : operation.reduce == ncclMin ? std::min(wide[i], other[i])
                                            : std::max(wide[i], other[i]);
  narrow_floats(dtype, wide.data(), halves.data(), static_cast<std::int64_t>(count));
  std::memcpy(into.data(), halves.data(), count * sizeof(std::uint16_t));
}

void reduce(Block& into, const Block& from, const Operation& operation) {
  switch (operation.type) {
    case ncclInt8:
      return reduce_as<std::int8_t>(into, from, operation.reduce);
    case ncclUint8:
      return reduce_as<std::uint8_t>(into, from, operation.reduce);
    case ncclInt32:
      return reduce_as<std::int32_t>(into, from, operation.reduce);
    case ncclInt64:
      return reduce_as<std::int64_t>(into, from, operation.reduce);
    case ncclFloat16:
      return reduce_halves(into, from, operation, DType::F16);
    case ncclBfloat16:
      return reduce_halves(into, from, operation, DType::BF16);
    case ncclFloat32:
      return reduce_as<float>(into, from, operation.reduce);
    case ncclFloat64:
      return reduce_as<double>(into, from, operation.reduce);
    default:
      return;
  }
}

}  // namespace

bool Meeting::open(SocketName& name) {
  const int listener = listen_at_new_name(name);
  if (listener < 0) return false;
  auto meeting = std::make_shared<Meeting>();
  std::thread([meeting, listener] { meeting->take_in(listener); }).detach();
  return true;
}

void Meeting::take_in(int listener) {
  for (bool all = false; !all;) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) break;
    // Told when it is all here; a rank that comes after that finds nobody.
    std::thread([self = shared_from_this(), socket] { self->serve(socket); }).detach();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(20));
    all = all_here();
  }
  ::close(listener);
}

void Meeting::serve(int socket) {
  if (const auto greeting = read_greeting(socket)) {
    const Answered joined = join(*greeting, socket);
    bool well = write(socket, joined) && joined.result == ncclSuccess;
    while (well) {
      auto launched = read_launched(socket);
      well = launched && write(socket, launch(greeting->rank, *launched, socket));
    }
    leave(greeting->rank);
  }
  ::close(socket);
}

template <class Done>
void Meeting::wait(std::unique_lock<std::mutex>& lock, int rank, int socket, Done done) {
  const auto over = [&] { return failed_ != ncclSuccess || done(); };
  while (!changed_.wait_for(lock, std::chrono::milliseconds(2), over)) {
    char byte = 0;
    if (::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
      fail(ncclRemoteError, fmt::format("rank {} of the communicator has gone", rank));
  }
}

Answered Meeting::join(const Greeting& greeting, int socket) {
  std::unique_lock lock(mutex_);
  if (members_.empty()) members_.resize(static_cast<std::size_t>(std::max(greeting.size, 1)));
  if (static_cast<std::size_t>(greeting.size) != members_.size() || greeting.rank < 0 ||
      greeting.rank >= greeting.size)
    fail(ncclInvalidUsage, fmt::format("rank {} of {} came to a communicator of {}", greeting.rank,
                                       greeting.size, members_.size()));
  else if (Member& member = members_[static_cast<std::size_t>(greeting.rank)]; member.here)
    fail(ncclInvalidUsage, fmt::format("rank {} came twice", greeting.rank));
  else
    member.here = true, member.greeting = greeting;
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (members_[r].here && greeting.unit != decltype(greeting.unit){} &&
        members_[r].greeting.unit == greeting.unit && static_cast<int>(r) != greeting.rank)
      fail(ncclInvalidUsage,
           fmt::format("Duplicate GPU detected : rank {} and rank {}", r, greeting.rank));
  changed_.notify_all();
  wait(lock, greeting.rank, socket, [&] { return all_here(); });
  return {failed_, why_, {}};
}

Answered Meeting::launch(int rank, Launched& launched, int socket) {
  std::unique_lock lock(mutex_);
  Member& member = members_[static_cast<std::size_t>(rank)];
  member.answer = {};
  member.answer.blocks.resize(launched.operations.size());
  member.done.assign(launched.operations.size(), false);
  member.launched = &launched;
  match();
  changed_.notify_all();
  const auto done = [&] {
    return std::all_of(member.done.begin(), member.done.end(), [](bool d) { return d; });
  };
  wait(lock, rank, socket, done);
  member.launched = nullptr;
  if (done()) return std::move(member.answer);
  return {failed_, why_, {}};
}

void Meeting::leave(int rank) {
  const std::lock_guard lock(mutex_);
  if (static_cast<std::size_t>(rank) >= members_.size()) return;
  if (!members_[static_cast<std::size_t>(rank)].finalized)
    fail(ncclRemoteError, fmt::format("rank {} of the communicator has gone", rank));
}

void Meeting::match() {
  for (std::size_t a = 0; a < members_.size(); ++a)
    for (std::size_t b = 0; b < members_.size(); ++b)
      match_pairs(members_[a], static_cast<int>(a), members_[b], static_cast<int>(b));
  match_collective();
}

/// The sends of one rank to another meet the other's receives from it in their order.
void Meeting::match_pairs(Member& from, int from_rank, Member& to, int to_rank) {
  if (from.launched == nullptr || to.launched == nullptr) return;
  std::size_t r = 0;
  for (std::size_t s = 0; s < from.done.size(); ++s) {
    const Operation& sent = from.launched->operations[s];
    if (from.done[s] || sent.kind != Kind::Send || sent.peer != to_rank) continue;
    const auto waits = [&](std::size_t i) {
      const Operation& other = to.launched->operations[i];
      return !to.done[i] && other.kind == Kind::Receive && other.peer == from_rank;
    };
    while (r < to.done.size() && !waits(r)) ++r;
    if (r == to.done.size()) return;
    const Operation& received = to.launched->operations[r];
    if (sent.count != received.count || sent.type != received.type)
      return fail(ncclInvalidUsage, fmt::format("rank {} has {}, rank {} has {}", from_rank,
                                                sent.text(), to_rank, received.text()));
    to.answer.blocks[r] = from.launched->blocks[s];
    from.done[s] = to.done[r] = true;
  }
}

/// Once every rank is in one.
void Meeting::match_collective() {
  const Operation* first = nullptr;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    const Member& member = members_[r];
    if (member.launched == nullptr || member.done.size() != 1 || member.done[0] ||
        member.launched->operations[0].pairwise())
      return;
    const Operation& mine = member.launched->operations[0];
    if (first == nullptr) first = &mine;
    if (mine != *first)
      return fail(ncclInvalidUsage,
                  fmt::format("rank 0 has {}, rank {} has {}", first->text(), r, mine.text()));
  }
  if (first != nullptr) carry_out(*first);
}

void Meeting::carry_out(const Operation& operation) {
  const auto brought = [&](std::size_t rank) -> const Block& {
    return members_[rank].launched->blocks[0];
  };
  Block whole;
  if (operation.kind == Kind::AllGather)
    for (std::size_t r = 0; r < members_.size(); ++r)
      whole.insert(whole.end(), brought(r).begin(), brought(r).end());
  if (operation.kind == Kind::Broadcast) whole = brought(static_cast<std::size_t>(operation.peer));
  if (operation.kind == Kind::AllReduce || operation.kind == Kind::ReduceScatter) {
    whole = brought(0);
    for (std::size_t r = 1; r < members_.size(); ++r) reduce(whole, brought(r), operation);
  }
  const std::size_t share = operation.count * type_size(operation.type);
  for (std::size_t r = 0; r < members_.size(); ++r) {
    Member& member = members_[r];
    member.answer.blocks[0] = whole;
    if (operation.kind == Kind::ReduceScatter)
      member.answer.blocks[0].assign(whole.begin() + static_cast<std::ptrdiff_t>(r * share),
                                     whole.begin() + static_cast<std::ptrdiff_t>((r + 1) * share));
    member.finalized |= operation.kind == Kind::Finalize;
    member.done[0] = true;
  }
}

void Meeting::fail(ncclResult_t result, std::string text) {
  if (failed_ == ncclSuccess) failed_ = result, why_ = std::move(text);
  changed_.notify_all();
}

bool Meeting::all_here() const {
  return !members_.empty() && std::all_of(members_.begin(), members_.end(),
                                          [](const Member& member) { return member.here; });
}

}  // namespace lockstep::emulated
