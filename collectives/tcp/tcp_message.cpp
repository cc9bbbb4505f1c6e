#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_message.h>
#include <lockstep/collectives/wire/fields.h>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kNameBytes = 128, kAddressBytes = 64, kSentenceBytes = 4096;
constexpr std::size_t kMostRuns = 2048, kMostRows = 64;

void each_byte(auto& visit, Of<RendezvousId> auto& id) {
  for (auto& byte : id) visit.number(byte);
}

}  // namespace

void fields(auto& visit, Of<Endpoint> auto& at) {
  visit.line(at.address, kAddressBytes);
  visit.port(at.port);
}

void fields(auto& visit, Of<JoinRequest> auto& request) {
  visit.number(request.version);
  visit.line(request.job, kNameBytes);
  visit.number(request.rank.value);  // wrong ranks and sizes are answered later
  visit.number(request.size);
  visit.line(request.build, kNameBytes);
  visit.line(request.host, kNameBytes);
  visit.number(request.host_id);
  visit.number(request.pid);
  visit.port(request.port);
}

void fields(auto& visit, Of<Waiting> auto& waiting) {
  visit.ranks(waiting.missing, kMostRuns, kMostRanks);
}

void fields(auto& visit, Of<JoinRefused> auto& turned) {
  visit.kind(turned.code, Code::Internal);
  visit.line(turned.message, kSentenceBytes);
}

void fields(auto& visit, Of<Peer> auto& peer) {
  fields(visit, peer.listens);
  visit.line(peer.host, kNameBytes);
  visit.number(peer.host_id);
  visit.number(peer.pid);
}

void fields(auto& visit, Of<RosterPart> auto& part) {
  each_byte(visit, part.id);
  visit.below(part.first, kMostRanks);
  visit.list(part.peers, RosterPart::kMostPeers, 24, kStruct);
}

void fields(auto& visit, Of<Introduction> auto& introduction) {
  each_byte(visit, introduction.id);
  visit.rank(introduction.rank, kMostRanks);
  visit.number(introduction.attempt);
  visit.number(introduction.received);
}

void fields(auto& visit, Of<Part> auto& part) {
  visit.number(part.group);
  visit.kind(part.kind, Part::Kind::Farewell);
  visit.number(part.total);
  visit.number(part.number);
  visit.number(part.received);
  visit.bytes(part.bytes, Part::kMostBytes);
  visit.require(part.bytes.size() <= part.total);
}

void fields(auto& visit, Of<Acknowledgement> auto& told) { visit.number(told.received); }

void fields(auto& visit, Of<Verdict> auto& verdict) {
  auto& status = verdict.status;
  visit.kind(status.code, Code::Internal);
  visit.line(status.message, kSentenceBytes);
  visit.line(status.source, kNameBytes);
  visit.list_within(status.groups, kMostRows, Part::kMostBytes / 2, [](auto& rows, auto& row) {
    rows.ranks(row.ranks, kMostRuns, kMostRanks);
    rows.line(row.value, kSentenceBytes);
  });
}

void fields(auto& visit, Of<Board::Begun> auto& begun) {
  visit.number(begun.group);
  visit.number(begun.operations);
}

void fields(auto& visit, Of<RankProgress> auto& progress) {
  auto& state = progress.state;
  visit.rank(progress.rank, kMostRanks);
  visit.flag(state.waiting);
  visit.flag(state.finished);
  visit.kind(state.phase, Phase::Finishing);
  visit.kind(state.operation, OperationKind::Collective);
  visit.number(state.pid);
  visit.number(state.begun);
  visit.number(state.group);
  visit.number(state.ordinal);
  visit.line(state.event, kEventBytes);
  visit.span(state.progress);
  visit.span(state.beat);
  visit.span(state.lease);
  visit.list(progress.begun, kBoardGroups, 16, kStruct);
  if constexpr (Reads<decltype(visit)>) state.known = state.carried = true;
}

void fields(auto& visit, Of<WaitAt> auto& wait) { fields(visit, wait.parent); }

void fields(auto& visit, Of<Presence> auto& told) {
  visit.rank(told.rank, kMostRanks);
  visit.flag(told.here);
}

std::string who(const JoinRequest& request) {
  return fmt::format("rank {} (process {} on {})", request.rank.value, request.pid, request.host);
}

bool RankProgress::operator==(const RankProgress& other) const {
  return encode(*this) == encode(other);
}

std::uint8_t type_of(const TcpMessage& message) {
  return static_cast<std::uint8_t>(kFirstSealedType + message.index());
}

Bytes encode(const TcpMessage& message) {
  FieldWriter out;
  write_alternative(out, message);
  return std::move(out).take();
}

std::optional<TcpMessage> decode_tcp(const SealedMessage& sealed) {
  if (sealed.type < kFirstSealedType) return std::nullopt;
  return read_alternative<TcpMessage>(sealed.type - kFirstSealedType, sealed.payload);
}

}  // namespace lockstep::collectives
