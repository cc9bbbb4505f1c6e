// Which rank writes which piece. The ranks tell their pieces up a tree, where equal ones become
// one, and each hears which of its own are a lower rank's to write: no rank but the tree's head
// learns the pieces of all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/checkpoint/piece.h>

namespace lockstep::worker {

/// One rank's part of the talk. Of equal pieces the lowest rank's is written.
class PiecePlan final : public collectives::TreeTalk {
 public:
  /// `save`: the name of the save, from rank 0; empty on all others.
  PiecePlan(Rank self, std::string save, const std::vector<Piece>& mine);

  void heard(bool left, std::span<const std::byte> word) override;
  [[nodiscard]] Bytes word() override;
  void answered(std::span<const std::byte> answer) override;
  [[nodiscard]] Bytes answer(bool left) override;

  /// After the talk; each piece's turn by its number. The same error on all ranks:
  /// ConstraintViolation, naming the tensor: ranks differ in its dtype or global sizes, or its
  /// pieces overlap or do not fill it; Internal.
  [[nodiscard]] Result<std::vector<bool>> writes() const;
  /// After the talk: rank 0's.
  [[nodiscard]] const std::string& save() const { return save_; }

 private:
  struct Held {
    Piece piece;
    std::int32_t lowest = 0;  // rank that has it
  };
  /// Pieces of a child's subtree or of this rank, and their places among those of its subtree.
  struct Source {
    std::vector<Held> held;  // ascending, each once
    std::vector<std::size_t> places;
  };
  [[nodiscard]] static bool before(const Piece& a, const Piece& b);
  [[nodiscard]] static std::optional<Status> flaw_of(const std::vector<Held>& all);
  [[nodiscard]] bool lower_has(std::size_t place,
                               std::initializer_list<const Source*> beside) const;
  void join();

  std::string save_;
  Source left_, own_, right_;
  std::vector<std::size_t> order_;  // of own pieces, by number: their place in own_
  std::vector<Held> all_;           // of the subtree
  std::vector<bool> lower_;         // by place: a rank below this subtree has it
  std::optional<Status> failure_;
  bool answered_ = false;
};

}  // namespace lockstep::worker
