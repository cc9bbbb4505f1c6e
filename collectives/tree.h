// The ordered tree: joins one payload per rank in rank order and gives every rank the result. The
// tree is a binary search tree over rank numbers, so left ⊔ self ⊔ right keeps rank order. Whatever
// the group's size, a rank receives at most two payloads on the way up and one on the way down. If
// hosts are known (host_runs.h), the ranks of each host form a tree of their own. Its head is in a
// tree of the hosts, so only one payload of each host goes up to another host. A head receives at
// most four payloads on the way up.
#pragma once

#include <functional>
#include <optional>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/host_runs.h>
#include <lockstep/collectives/round.h>

namespace lockstep::collectives {

/// A rank's place in the ordered tree. Pure function of (self, size, hosts).
struct TreePlace {
  std::optional<Rank> parent, left, right;
  /// On the head of a host: its children on hosts of lower and of higher ranks.
  std::optional<Rank> far_left{}, far_right{};
  [[nodiscard]] static TreePlace of(Rank self, int size, const HostRuns* hosts = nullptr);
  /// The place in the tree of the rank's own host. Requires that `hosts` is not empty.
  [[nodiscard]] static TreePlace on_host(Rank self, const HostRuns& hosts);
  [[nodiscard]] std::vector<Rank> neighbours() const;
};

/// Returns lower ⊔ higher. Both are payloads of contiguous rank ranges; the ranks of `lower` are
/// below those of `higher`. Must be associative and must not fail: a conflict of payloads is data
/// in the result.
using Join =
    std::function<Bytes(std::span<const std::byte> lower, std::span<const std::byte> higher)>;

/// The order of a rank's messages with its neighbours in the tree: up, then down.
class TreeWalk {
 public:
  enum class Stage : std::uint8_t {
    Left,
    FarLeft,
    Right,
    FarRight,
    Up,
    Down,
    ToFarLeft,
    ToFarRight,
    ToLeft,
    ToRight,
    Done
  };
  explicit TreeWalk(const TreePlace& place) : place_(place) {}

  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] Round::Want want() const;
  /// True if the stage has a message; else the stage is to be skipped.
  [[nodiscard]] bool has_peer() const { return want().need != Round::Need::Done; }
  void next() { stage_ = static_cast<Stage>(static_cast<std::uint8_t>(stage_) + 1); }

 private:
  TreePlace place_;
  Stage stage_ = Stage::Left;
};

/// One join of all ranks' payloads.
class TreeRound final : public Round {
 public:
  /// `hosts` (see Communicator::hosts()) does not change the result.
  TreeRound(Rank self, int size, Bytes mine, Join join, const HostRuns* hosts = nullptr);

  [[nodiscard]] Want want() const override { return walk_.want(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return payload_; }
  void sent() override;
  void received(std::span<const std::byte> message) override;

  /// The join over all ranks. Requires want().need == Done.
  [[nodiscard]] const Bytes& result() const { return payload_; }

 private:
  using Stage = TreeWalk::Stage;
  void plan();
  TreeWalk walk_;
  Bytes payload_;
  Join join_;
};

/// What one rank sends up the tree and receives back in a TalkRound, in which each rank gets an
/// answer of its own. So the messages between a rank and its parent need to hold only what concerns
/// the rank's subtree.
class TreeTalk {
 public:
  virtual ~TreeTalk() = default;
  /// Takes the word (payload) that a child has sent for its subtree; the left child is first.
  virtual void heard(bool left, std::span<const std::byte> word) = 0;
  /// Returns the word of this rank's subtree; called after heard() for the children. On the root of
  /// the tree it is the word of all ranks.
  [[nodiscard]] virtual Bytes word() = 0;
  /// Takes the parent's answer to word(); not called on the root.
  virtual void answered(std::span<const std::byte> answer) = 0;
  /// Returns the answer to a child, made from the child's word and the answer to this rank.
  [[nodiscard]] virtual Bytes answer(bool left) = 0;
};

/// Runs one TreeTalk among all ranks.
class TalkRound final : public Round {
 public:
  /// `talk` must outlive the round.
  TalkRound(Rank self, int size, TreeTalk& talk);

  [[nodiscard]] Want want() const override { return walk_.want(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return out_; }
  void sent() override;
  void received(std::span<const std::byte> message) override;

 private:
  using Stage = TreeWalk::Stage;
  void plan();
  TreeWalk walk_;
  TreeTalk& talk_;
  Bytes out_;
};

/// Sends one payload from `root` to all ranks, by a binomial tree: each rank receives it once.
class BroadcastRound final : public Round {
 public:
  /// `mine` is used on the root only.
  BroadcastRound(Rank self, int size, Rank root, Bytes mine);

  [[nodiscard]] Want want() const override { return want_; }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return payload_; }
  void sent() override;
  void received(std::span<const std::byte> message) override;
  [[nodiscard]] const Bytes& result() const { return payload_; }

 private:
  void plan();
  std::int32_t self_, size_;
  std::int32_t relative_;  // rank counted from the root
  std::int32_t mask_ = 1;
  bool have_ = false;
  Bytes payload_;
  Want want_;
};

}  // namespace lockstep::collectives
