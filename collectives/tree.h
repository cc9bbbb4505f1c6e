// The ordered tree: joins one payload per rank in rank order and gives every rank the result. The
// tree is a binary search tree over rank numbers, so left ⊔ self ⊔ right keeps rank order, a rank
// receives at most two payloads on the way up and one on the way down, whatever the group's size.
#pragma once

#include <functional>
#include <optional>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/round.h>

namespace lockstep::collectives {

/// Where a rank stands in the ordered tree. Pure function of (self, size).
struct TreePlace {
  std::optional<Rank> parent, left, right;
  [[nodiscard]] static TreePlace of(Rank self, int size);
};

/// lower ⊔ higher, both payloads of contiguous rank ranges, lower's ranks below higher's. Must be
/// associative and must not fail: what does not fit together is data in the result.
using Join =
    std::function<Bytes(std::span<const std::byte> lower, std::span<const std::byte> higher)>;

/// One join of all ranks' payloads.
class TreeRound final : public Round {
 public:
  TreeRound(Rank self, int size, Bytes mine, Join join);

  [[nodiscard]] Want want() const override { return want_; }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return payload_; }
  void sent() override;
  void received(std::span<const std::byte> message) override;

  /// The join over all ranks. Requires want().need == Done.
  [[nodiscard]] const Bytes& result() const { return payload_; }

 private:
  enum class Stage : std::uint8_t { Left, Right, Up, Down, ToLeft, ToRight, Done };
  void plan();
  TreePlace place_;
  Bytes payload_;
  Join join_;
  Stage stage_ = Stage::Left;
  Want want_;
};

/// One payload from `root` to all, by a binomial tree: a rank receives it once.
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
