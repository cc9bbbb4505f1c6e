// libFuzzer target: whatever a process that knows the secret says to another one over TCP, nothing
// crashes, and what is read is written and read back as the same. The first byte picks what the
// rest is: the type and the payload of one frame; who comes to a rendezvous; what a peer says to a
// rank once all have met, over connections that break; or what lies in a ring that it shares. With
// LOCKSTEP_FUZZ_TYPE=N all bytes are the payload of a frame of that type.
// Strangers are wire_fuzz's.
// scripts/fuzz-coordinator runs it.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "../../support/fuzz_target.h"

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/shared_ring.h>
#include <lockstep/collectives/tcp/tcp_association.h>
#include <lockstep/collectives/tcp/tcp_inbox.h>

using namespace lockstep;
using namespace lockstep::collectives;
using lockstep::fuzz::require;

namespace {

void round_trip(std::uint8_t type, std::span<const std::byte> payload) {
  const auto message = decode_tcp({type, Bytes(payload.begin(), payload.end())});
  if (!message) return;
  require(type_of(*message) == type, "a message of another type");
  const auto back = decode_tcp({type, encode(*message)});
  require(back && *back == *message, "it is read back as another message");
}

/// The messages that `in` holds, each after its type; those that cannot be read are left out.
template <class Take>
void each_message(ByteReader in, Take take) {
  for (int said = 0; in.ok() && !in.at_end() && said < 256; ++said) {
    const std::uint8_t from = in.u8(), type = in.u8();
    const std::string text = in.text();
    const auto payload = std::as_bytes(std::span(text));
    if (auto message = decode_tcp({type, Bytes(payload.begin(), payload.end())});
        message && in.ok())
      take(from, *std::move(message));
  }
}

void who_comes(ByteReader in) {
  RendezvousMembers members(
      {.job = "", .rank = {0}, .size = 3, .build = "", .host = "", .host_id = 0, .pid = 0});
  std::map<std::int32_t, JoinRequest> here;
  each_message(in, [&](std::uint8_t from, const TcpMessage& message) {
    if (from >= 128) members.left(Rank{from % 4}, Instant{from});
    if (from >= 192) members.forget_gone(Instant{from});
    if (const auto* told = std::get_if<Presence>(&message))
      told->here ? members.arrived(told->rank) : members.left(told->rank, Instant{0});
    const auto* request = std::get_if<JoinRequest>(&message);
    if (request == nullptr) return;
    const bool was_missing = members.missing().contains(request->rank) ||
                             members.gone().contains(request->rank);
    const auto answer = members.join(*request, "127.0.0.1");
    require(!answer.wait_at || was_missing, "who comes again is sent on");
    if (answer.refusal) return;
    const JoinRequest earlier = std::exchange(here[request->rank.value], *request);
    require(was_missing || earlier.pid == request->pid, "a rank came in place of one that was there");
    require(!members.missing().empty() || members.roster().size() == 3, "no roster");
  });
}

/// Connections that go nowhere; what is asked of one that is not there any more is a fault.
struct Connections final : AssociationPort {
  Link open() override {
    there.insert(++last);
    return last;
  }
  void introduce(Link link, std::uint64_t, std::uint64_t) override { there_is(link); }
  void write(Link link, std::span<const std::byte>) override { there_is(link); }
  void acknowledge(Link link, std::uint64_t) override { there_is(link); }
  void close(Link link) override {
    there_is(link);
    there.erase(link);
  }
  void there_is(Link link) const { require(there.contains(link), "a connection that is gone"); }
  std::set<Link> there;
  Link last = 0;
};

/// One peer; the byte before each message says what happens to the connection first.
void once_met(ByteReader in) {
  constexpr std::size_t kLongest = 1 << 16;
  Connections connections;
  Association association(true, connections);
  TcpInbox inbox(kLongest);
  std::uint64_t taken = 0;
  each_message(in, [&](std::uint8_t happens, TcpMessage message) {
    if (happens % 8 == 1) association.open();
    if (happens % 8 == 2) association.established(association.link());
    if (happens % 8 == 3 && association.link() != 0) {
      connections.there.erase(association.link());
      (void)association.broken(association.link());
    }
    if (happens % 8 == 4) {
      (void)association.next();
      association.send(Bytes(happens));
    }
    if (const auto* word = std::get_if<Introduction>(&message)) {
      if (happens < 128) return association.answered(association.link(), word->received);
      association.introduced(connections.open(), word->attempt, word->received);
    } else if (const auto* told = std::get_if<Acknowledgement>(&message)) {
      (void)association.acknowledged(told->received);
    } else if (auto* part = std::get_if<Part>(&message)) {
      const auto arrival = association.arrived(association.link(), {part->number, part->received},
                                               part->bytes.size());
      if (arrival != Association::Arrival::Next) return;
      require(part->number == taken++, "a message came twice, or out of order");
      (void)inbox.put(Rank{happens % 4}, std::move(*part));
    }
  });
  for (std::int32_t peer = 0; peer < 4; ++peer)
    for (const std::uint64_t group : {0U, 1U})
      for (const auto line :
           {Part::Kind::Bare, Part::Kind::Data, Part::Kind::Board, Part::Kind::Leave})
        while (const auto message = inbox.take(Rank{peer}, group, line))
          require(message->bytes.size() <= kLongest, "a message that is too long");
}

/// Whatever lies in shared memory, what is read lies in the ring.
void in_a_ring(ByteReader in, std::span<const std::byte> bytes) {
  const auto ring = std::make_unique<SharedRing>();
  ring->written = in.u64() % (SharedRing::kBytes + 64);
  for (std::size_t at = 0; at < SharedRing::kBytes; at += bytes.size())
    std::copy_n(bytes.begin(), std::min(bytes.size(), SharedRing::kBytes - at),
                ring->bytes.begin() + static_cast<std::ptrdiff_t>(at));
  RingReader reader(*ring);
  std::size_t read = 0;
  for (auto next = reader.next(); next && next->data() != nullptr; next = reader.next()) {
    const std::byte* end = ring->bytes.data() + ring->bytes.size();
    require(next->data() >= ring->bytes.data() && next->size() <= SharedRing::kMostBytes &&
                next->data() + next->size() <= end,
            "a message outside of the ring");
    read += next->size() + 8;
    require(read <= SharedRing::kBytes, "more than was written");
    reader.took();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const char* const only = std::getenv("LOCKSTEP_FUZZ_TYPE");
  if (only != nullptr) {
    round_trip(static_cast<std::uint8_t>(std::atoi(only)), std::as_bytes(std::span(data, size)));
    return 0;
  }
  if (size < 2) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  if (data[0] >= 192) {
    if (rest.size() >= 8) in_a_ring(ByteReader(rest), rest);
    return 0;
  }
  switch (data[0] % 3) {
    case 0:
      round_trip(data[1], rest);
      break;
    case 1:
      who_comes(ByteReader(rest));
      break;
    default:
      once_met(ByteReader(rest));
  }
  return 0;
}
