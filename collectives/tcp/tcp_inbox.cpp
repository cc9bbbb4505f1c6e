#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_inbox.h>

namespace lockstep::collectives {

TcpInbox::Line TcpInbox::line(Rank from, std::uint64_t group, Part::Kind kind) {
  const int number =
      kind == Part::Kind::Bare || kind == Part::Kind::Payload ? 0 : static_cast<int>(kind);
  return {from.value, group, number};
}

Result<void> TcpInbox::put(Rank from, Part part) {
  Queue& queue = queues_[line(from, part.group, part.kind)];
  if (!queue.begun) {
    if (part.total > longest_)
      return internal_error(
          fmt::format("Rank {} announces a payload of {} bytes; at most {} are believed.",
                      from.value, part.total, longest_));
    queue.begun = Message{part.kind, {}};
    queue.total = part.total;
  }
  Bytes& bytes = queue.begun->bytes;
  if (part.total != queue.total || part.kind != queue.begun->kind ||
      part.bytes.size() > queue.total - bytes.size())
    return internal_error(
        fmt::format("The pieces of a message of rank {} do not fit together.", from.value));
  bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  if (bytes.size() < queue.total) return {};
  queue.whole.push_back(std::move(*queue.begun));
  queue.begun.reset();
  return {};
}

std::optional<TcpInbox::Message> TcpInbox::take(Rank from, std::uint64_t group, Part::Kind kind) {
  const auto found = queues_.find(line(from, group, kind));
  if (found == queues_.end() || found->second.whole.empty()) return std::nullopt;
  Message message = std::move(found->second.whole.front());
  found->second.whole.pop_front();
  return message;
}

}  // namespace lockstep::collectives
