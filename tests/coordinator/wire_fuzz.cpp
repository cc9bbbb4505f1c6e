// libFuzzer target: no bytes from the network make the coordinator or a client crash, and what is
// read is written and read back as the same. The first byte picks what the rest is: bytes from a
// stranger, to either side, encrypted or not; or, from somebody who has the secret, the type and
// the payload of a frame under key, or what several ranks and observers say and when; or HTTP from
// a stranger. With LOCKSTEP_FUZZ_TYPE=N all bytes are the payload of a frame of that type. Built
// where the compiler is clang; scripts/fuzz-coordinator runs it.
#include <algorithm>
#include <map>
#include <memory>

#include "../support/fuzz_target.h"

#include <lockstep/coordinator/server/connection.h>
#include <lockstep/coordinator/server/http_connection.h>
#include <lockstep/coordinator/server/website.h>

using namespace lockstep;
using namespace lockstep::coordinator;
using lockstep::fuzz::require;

namespace {

Nonce nonce(std::uint8_t value) {
  Nonce out;
  out.fill(std::byte{value});
  return out;
}
const Secret kSecret(32, std::byte{42});

void from_a_stranger(Session::Side side, collectives::Encryption encryption,
                     std::span<const std::byte> bytes, std::size_t step) {
  Session session(side, kSecret, nonce(1), encryption);
  (void)session.open();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(step, bytes.size()));
    bytes = bytes.subspan(part.size());
    const auto taken = session.take(part);
    require(taken.messages.empty(), "a stranger got through");
    require(!session.established(), "a stranger has proven to know the secret");
    if (taken.refusal) return;
  }
}

/// Both sides of a connection, the handshake done.
struct Pair {
  Session coordinator{Session::Side::Coordinator, kSecret, nonce(1)};
  Session client{Session::Side::Client, kSecret, nonce(2)};
  Pair() {
    (void)client.take(
        coordinator.take(client.take(coordinator.take(client.open()).reply).reply).reply);
    require(client.established() && coordinator.established(), "no handshake");
  }
};

void round_trip(std::uint8_t type, std::span<const std::byte> payload) {
  const auto message = decode({type, Bytes(payload.begin(), payload.end())});
  if (!message) return;
  require(static_cast<std::uint8_t>(type_of(*message)) == type, "a message of another type");
  const Bytes written = encode(*message);
  require(written.size() == payload.size(), "another length");
  const auto back = decode({type, written});
  require(back && *back == *message, "it is read back as another message");
  static Pair pair;  // its counters go on
  const bool up = type < static_cast<std::uint8_t>(MessageType::Joined);
  const auto taken = up ? pair.coordinator.take(pair.client.seal(*message))
                        : pair.client.take(pair.coordinator.seal(*message));
  require(!taken.refusal && taken.messages.size() == 1 && taken.messages[0] == *message,
          "it did not come through");
}

/// One who speaks to the coordinator, the handshake done.
struct Speaker {
  Connection connection;
  Session session{Session::Side::Client, kSecret, nonce(2)};
  bool open = true;
  Speaker(std::uint64_t id, Service& service) : connection(ConnectionId(id), kSecret, nonce(1)) {
    const auto hear = [&](const Bytes& bytes) {
      return connection.take(bytes, service, {}, Instant{0}).send;
    };
    (void)session.take(hear(session.take(hear(session.open())).reply));
    require(session.established() && connection.established(), "no handshake");
  }
};

/// Messages, each after a byte of time and a byte that picks who says it; four connections, which
/// open again where they were closed. Whatever is said, the jobs are diagnosed and shown.
void from_several(ByteReader in) {
  Service service;
  Instant now{0};
  std::uint64_t last_id = 0;
  std::map<int, std::unique_ptr<Speaker>> speakers;
  for (int said = 0; in.ok() && !in.at_end() && said < 64; ++said) {
    now += std::chrono::milliseconds(100) * in.u8();
    auto& speaker = speakers[in.u8() % 4];
    const std::uint8_t type = in.u8();
    const std::string text = in.text();
    const auto payload = std::as_bytes(std::span(text));
    const auto message = decode({type, Bytes(payload.begin(), payload.end())});
    if (!in.ok() || !message || type_of(*message) >= MessageType::Joined) continue;
    if (const auto* join = std::get_if<Join>(&*message); join && join->identity.size > 64) continue;
    if (!speaker) speaker = std::make_unique<Speaker>(++last_id, service);
    auto outcome = speaker->connection.take(speaker->session.seal(*message), service, {}, now);
    require(!speaker->session.take(outcome.send).refusal, "an answer that cannot be read");
    for (Bytes part = speaker->connection.more(); !part.empty(); part = speaker->connection.more())
      require(!speaker->session.take(part).refusal, "a status that cannot be read");
    for (auto& [which, other] : speakers)
      if (other && outcome.replaced == other->connection.id()) other.reset();
    if (!outcome.close) continue;
    service.closed(speaker->connection.id(), now);
    speaker.reset();
  }
  for (const auto& [id, job] : service.jobs()) {
    require(job.call_log.calls().size() <= CallLog::kMostCalls,
            "more calls than there is room for");
    const auto verdict = service.verdict(job, now);
    require(!verdict || !verdict->message.empty(), "a verdict without a sentence");
  }
  EventLog event_log;
  (void)event_log.look(service, now, {});
  const RejectedFrames rejected{};
  const About about{"0", "127.0.0.1:1", 1, Instant{0}};
  for (const Resource resource :
       {Resource::Page, Resource::Status, Resource::Metrics, Resource::Trace, Resource::Dump})
    require(!website(resource, {service, event_log, rejected, about, now, {}}).body.empty(),
            "nothing to show");
}

/// The rest of the bytes come in steps, to a door that does not know who is there: whatever they
/// are, nothing but a refusal comes back; and one that does lets nobody in by another name.
void http(bool same_user, std::span<const std::byte> bytes, std::size_t step) {
  HttpConnection connection;
  std::string asked;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(step, bytes.size()));
    bytes = bytes.subspan(part.size());
    asked.append(reinterpret_cast<const char*>(part.data()), part.size());
    (void)connection.take(part, {[&] {
                                   return HttpAccess{"127.0.0.1", "0123456789abcdef", same_user};
                                 },
                                 [](Resource) {
                                   HttpAnswer answer;
                                   answer.body = "what is shown";
                                   return answer;
                                 }});
  }
  std::string answer;
  for (Bytes part = connection.more(); !part.empty(); part = connection.more())
    answer.append(reinterpret_cast<const char*>(part.data()), part.size());
  require(connection.answered() != answer.empty(), "an answer that is none, or none that is one");
  require(connection.answered() || asked.size() <= kHttpHeadBytes, "more is kept than may be");
  if (answer.empty()) return;
  require(answer.starts_with("HTTP/1.1 "), "no head");
  require(answer.find("\r\n\r\n") != std::string::npos, "the head does not end");
  const bool shown = answer.find("what is shown") != std::string::npos;
  require(!shown || same_user, "a stranger is shown the page");
  const auto names = [&](const char* name) { return asked.find(name) != std::string::npos; };
  require(!shown || names("127.") || names("localhost") || names("["), "shown by another name");
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
  const std::size_t step = std::size_t{1} + data[1];
  using collectives::Encryption;
  if (data[0] >= 192) {
    const auto side = data[0] % 2 == 0 ? Session::Side::Coordinator : Session::Side::Client;
    from_a_stranger(side, Encryption::On, rest, step);
    return 0;
  }
  switch (data[0] % 6) {
    case 0:
      from_a_stranger(Session::Side::Coordinator, Encryption::AsTheClient, rest, step);
      break;
    case 1:
      from_a_stranger(Session::Side::Client, Encryption::Off, rest, step);
      break;
    case 2:
      round_trip(data[1], rest);
      break;
    case 3:
      from_several(ByteReader(rest));
      break;
    default:
      http(data[0] % 2 == 0, rest, step);
  }
  return 0;
}
