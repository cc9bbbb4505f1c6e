#include <algorithm>

#include "plain_posts.h"

namespace lockstep::tests {

using namespace lockstep::lines;

Result<LineId> PlainPosts::open(const Group& group) {
  auto found = std::find(opened_.begin(), opened_.end(), group.key);
  if (found == opened_.end()) found = opened_.insert(found, group.key);
  return LineId{static_cast<std::uint32_t>(found - opened_.begin())};
}

std::uint64_t PlainPosts::count(LineId line) const { return count(self_, opened_.at(line.value)); }

Result<void> PlainPosts::post(LineId line, const Entry& entry) {
  world_.entries[{self_, opened_.at(line.value)}].push_back(entry);
  return {};
}

void PlainPosts::handed(LineId line) {
  world_.handed[{self_, opened_.at(line.value)}] = count(line);
}

void PlainPosts::trim(LineId, std::uint64_t) {}

TextId PlainPosts::text(std::string_view text) {
  PlainTexts& all = *world_.texts;
  auto found = std::find(all.begin(), all.end(), text);
  if (found == all.end()) found = all.insert(found, std::string(text));
  return static_cast<TextId>(found - all.begin());
}

PeerState PlainPosts::state(Rank peer) const {
  return world_.states[static_cast<std::size_t>(peer.value)];
}

std::uint64_t PlainPosts::count(Rank peer, LineKey key) const {
  const auto found = world_.entries.find({peer, key});
  return found == world_.entries.end() ? 0 : found->second.size();
}

std::optional<Entry> PlainPosts::entry(Rank peer, LineKey key, std::uint64_t number) const {
  return world_.entries.at({peer, key}).at(number);
}

EntryTexts PlainPosts::texts(Rank, const Posted& posted) const {
  const PlainTexts& all = *world_.texts;
  return {all[posted.kind], all[posted.dtype], all[posted.reduction], all[posted.place]};
}

std::optional<Status> PlainPosts::refusal(LineKey key) const {
  const auto found = world_.refusals.find(key);
  return found == world_.refusals.end() ? std::nullopt : std::optional(found->second);
}

Status PlainPosts::refuse(LineKey key, const Status& status) {
  return world_.refusals.try_emplace(key, status).first->second;
}

}  // namespace lockstep::tests
