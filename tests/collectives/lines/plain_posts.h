// Posts in plain memory, of ranks that take turns.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/collectives/lines/posts.h>

namespace lockstep::tests {

using PlainTexts = std::vector<std::string>;

/// What all ranks have posted, as one host knows it.
struct PlainWorld {
  explicit PlainWorld(
      int ranks, std::shared_ptr<PlainTexts> of_all = std::make_shared<PlainTexts>(PlainTexts{""}))
      : texts(std::move(of_all)),
        states(static_cast<std::size_t>(ranks), lines::PeerState::Running) {}
  std::map<std::pair<Rank, lines::LineKey>, std::vector<lines::Entry>> entries;
  std::map<std::pair<Rank, lines::LineKey>, std::uint64_t> handed;
  std::map<lines::LineKey, Status> refusals;
  std::shared_ptr<PlainTexts> texts;
  std::vector<lines::PeerState> states;
  std::set<Rank> elsewhere;
};

/// Posts in it.
class PlainPosts final : public lines::Posts {
 public:
  PlainPosts(PlainWorld& world, Rank self) : world_(world), self_(self) {}
  [[nodiscard]] Result<lines::LineId> open(const lines::Group& group) override;
  [[nodiscard]] std::uint64_t count(lines::LineId line) const override;
  [[nodiscard]] Result<void> post(lines::LineId line, const lines::Entry& entry) override;
  void handed(lines::LineId line) override;
  void trim(lines::LineId line, std::uint64_t number) override;
  [[nodiscard]] lines::TextId text(std::string_view text) override;
  [[nodiscard]] bool is_here(Rank peer) const override { return !world_.elsewhere.contains(peer); }
  [[nodiscard]] lines::PeerState state(Rank peer) const override;
  [[nodiscard]] std::string gone_text(Rank) const override { return {}; }
  [[nodiscard]] std::uint64_t count(Rank peer, lines::LineKey key) const override;
  [[nodiscard]] std::optional<lines::Entry> entry(Rank peer, lines::LineKey key,
                                                  std::uint64_t number) const override;
  [[nodiscard]] lines::EntryTexts texts(Rank peer, const lines::Posted& posted) const override;
  [[nodiscard]] std::optional<Status> refusal(lines::LineKey key) const override;
  [[nodiscard]] Status refuse(lines::LineKey key, const Status& status) override;

 private:
  PlainWorld& world_;
  Rank self_;
  std::vector<lines::LineKey> opened_;
};

}  // namespace lockstep::tests
