#include <algorithm>
#include <map>

#include <lockstep/worker/simulator/cluster/rank_rounds.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {

using collectives::TreePlace;

struct RankRounds::ParallelJoin {
  /// The subtree headed by a rank: ranks low to high.
  struct Subtree {
    std::int32_t head = 0, low = 0, high = 0;
  };
  [[nodiscard]] static Subtree whole(int size) {
    std::int32_t root = 0;
    while (const auto parent = TreePlace::of(Rank{root}, size).parent) root = parent->value;
    return {root, 0, size - 1};
  }

  const Payload& payload;
  const collectives::Join& join;
  const Same& same;
  int size;
  std::vector<std::uint64_t>& received;
  TreeBytes* sent;
  std::vector<Subtree> apart{};            // each joined by one thread
  std::map<std::int32_t, Bytes> joined{};  // joins of these subtrees, by head

  /// Splits off the subtrees of at most `most` ranks.
  void split(const Subtree& at, std::int32_t most) {
    if (at.high - at.low < most) {
      apart.push_back(at);
      joined[at.head];
      return;
    }
    const TreePlace place = TreePlace::of(Rank{at.head}, size);
    if (place.left) split({place.left->value, at.low, at.head - 1}, most);
    if (place.right) split({place.right->value, at.head + 1, at.high}, most);
  }

  /// Returns the subtree's join. `all`: joins every rank; else takes the parts from `joined`. A
  /// rank's received bytes are written only by the thread that has its subtree.
  Bytes run(const Subtree& at, bool all) {
    if (!all)
      if (const auto done = joined.find(at.head); done != joined.end())
        return std::move(done->second);
    if (all && same(at.low, at.high)) {
      Bytes out = payload(Rank{at.head});
      count(at, out.size());
      return out;
    }
    const TreePlace place = TreePlace::of(Rank{at.head}, size);
    std::uint64_t& bytes = received[static_cast<std::size_t>(at.head)];
    Bytes out = payload(Rank{at.head});
    if (place.left) {
      const Bytes lower = run({place.left->value, at.low, at.head - 1}, all);
      bytes += lower.size();
      out = join(lower, out);
    }
    if (place.right) {
      const Bytes higher = run({place.right->value, at.head + 1, at.high}, all);
      bytes += higher.size();
      out = join(out, higher);
    }
    sends(at.head, out.size());
    return out;
  }

  void sends(std::int32_t rank, std::size_t bytes) {
    if (sent != nullptr)
      sent->up[static_cast<std::size_t>(rank)] = static_cast<std::uint32_t>(bytes);
  }

  /// Counts `bytes` as sent by every rank of the subtree.
  void count(const Subtree& at, std::size_t bytes) {
    sends(at.head, bytes);
    const TreePlace place = TreePlace::of(Rank{at.head}, size);
    for (const auto& child : {place.left, place.right})
      if (child) received[static_cast<std::size_t>(at.head)] += bytes;
    if (place.left) count({place.left->value, at.low, at.head - 1}, bytes);
    if (place.right) count({place.right->value, at.head + 1, at.high}, bytes);
  }
};

RankRounds::RankRounds(int size) : size_(size), received_(static_cast<std::size_t>(size), 0) {}

Bytes RankRounds::tree_join(const Payload& payload, const collectives::Join& join, const Same& same,
                            TreeBytes* sent) {
  constexpr std::int32_t kRanks = 1024;  // most in a subtree for one thread
  if (sent != nullptr) sent->up.assign(static_cast<std::size_t>(size_), 0);
  ParallelJoin parallel{payload, join, same, size_, received_, sent};
  const ParallelJoin::Subtree root = ParallelJoin::whole(size_);
  parallel.split(root, kRanks);
  in_parallel(parallel.apart.size(), [&](std::size_t i) {
    const ParallelJoin::Subtree& part = parallel.apart[i];
    parallel.joined.find(part.head)->second = parallel.run(part, true);
  });
  Bytes result = parallel.run(root, false);
  from_parent_ += result.size();
  ++others_;
  if (sent != nullptr) sent->down = result.size();
  return result;
}

void RankRounds::broadcast(Rank root, std::size_t bytes) {
  broadcast_ += bytes;
  received_[static_cast<std::size_t>(root.value)] -= bytes;  // may wrap until broadcast_ is added
  ++others_;
}

std::uint64_t RankRounds::bytes_per_rank_max() const {
  const std::int32_t root = ParallelJoin::whole(size_).head;
  std::uint64_t most = 0;
  for (const VoteShare& share : vote_shares(size_))
    for (std::int32_t r = share.ranks.first; r <= share.ranks.last; ++r)
      most = std::max(most, received_[static_cast<std::size_t>(r)] + broadcast_ +
                                (r == root ? 0 : from_parent_) +
                                votes_ * share.messages * sizeof(collectives::Vote));
  return most;
}

}  // namespace lockstep::worker::simulator
