// Random programs on random groups, whose ranks take turns in any order: each step of the issuer (a
// post, a comparison) and each of the transport is a turn of its own, and so is each step of a note
// from one host to another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/wait_ring.h>

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

struct RunOutcome {
  std::string wrong;       // what must not happen, in words; empty: nothing
  bool all_ended = false;  // every rank has come to the end of its program
  bool refused = false;    // a rank has refused
  bool blocked = false;    // ranks were named that cannot go on
};

/// One run, on `hosts` hosts at most. `faulty`: one rank departs from the program: another size,
/// dtype, reduction, root, split or order, an operation too few or too many, or it ends early.
[[nodiscard]] RunOutcome simulate(std::uint64_t seed, bool faulty, int hosts = 1);

}  // namespace lockstep::tests
