// Decides which rank writes which piece. The ranks send their piece lists up a tree that merges
// equal pieces. The answer tells each rank which of its pieces a lower rank writes. Only the tree's
// head learns the pieces of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/files/checkpoint/piece.h>

namespace lockstep::worker {

/// One rank's part of the talk. The lowest rank that has a piece writes it.
class PiecePlan final : public collectives::TreeTalk {
 public:
  /// `save`: the name of the save, from rank 0; empty on all others.
  PiecePlan(Rank self, std::string save, const std::vector<Piece>& mine);

  void heard(bool left, std::span<const std::byte> word) override;
  [[nodiscard]] Bytes word() override;
  void answered(std::span<const std::byte> answer) override;
  [[nodiscard]] Bytes answer(bool left) override;

  /// After the talk: for each piece of this rank, by number, whether this rank writes it. Errors,
  /// equal on all ranks: ConstraintViolation, naming the tensor (ranks differ in its dtype or
  /// global sizes, or its pieces overlap or do not fill it); Internal.
  [[nodiscard]] Result<std::vector<bool>> writes() const;
  /// After the talk: the name of the save that rank 0 gave.
  [[nodiscard]] const std::string& save() const { return save_; }

 private:
  struct Held {
    Piece piece;
    std::int32_t lowest = 0;  // lowest rank that has the piece
  };
  /// Pieces of a child's subtree or of this rank, and their places in all_.
  struct Source {
    std::vector<Held> held;  // ascending, no duplicates
    std::vector<std::size_t> places;
  };
  [[nodiscard]] static bool before(const Piece& a, const Piece& b);
  [[nodiscard]] static std::optional<Status> first_error(const std::vector<Held>& all);
  [[nodiscard]] bool lower_has(std::size_t place,
                               std::initializer_list<const Source*> beside) const;
  void join();

  std::string save_;
  Source left_, own_, right_;
  std::vector<std::size_t> order_;  // place in own_ of each own piece, by number
  std::vector<Held> all_;           // pieces of this rank's subtree, ascending
  std::vector<bool> lower_;         // by place in all_: true if a rank below this subtree has it
  std::optional<Status> failure_;
  bool answered_ = false;
};

}  // namespace lockstep::worker
