#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/words.h>

namespace lockstep::collectives {
namespace {

constexpr std::array<std::string_view, kWordOps> kNames{
    "min", "max", "sum", "bitand", "bitor", "all", "any", "equal", "argmin", "argmax"};

bool names_rank(WordOp op) { return op == WordOp::ArgMin || op == WordOp::ArgMax; }

/// Places of a vote that a word takes: a word that names a rank has the rank in the second.
std::size_t places(WordOp op) { return names_rank(op) ? 2 : 1; }

std::uint64_t brought(const Word& word) {
  const bool truth = word.op == WordOp::All || word.op == WordOp::Any;
  return static_cast<std::uint64_t>(truth ? std::int64_t{word.value != 0} : word.value);
}

}  // namespace

std::string_view word_op_name(WordOp op) { return kNames[static_cast<std::size_t>(op)]; }

Result<void> check(std::span<const Word> words, int size) {
  if (words.empty() || words.size() > kMostWords)
    return bad_input(fmt::format("{} words; give 1 to {}", words.size(), kMostWords));
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / size;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].op == WordOp::Sum && (words[i].value > most || words[i].value < -most))
      return bad_input(fmt::format(
          "word {} is {}, and the sum of such words over {} ranks may not fit in 64 bits; give "
          "words from {} to {}",
          i, words[i].value, size, -most, most));
  }
  return {};
}

WordsRound::WordsRound(Rank self, int size, std::uint64_t key, std::span<const Word> words,
                       bool failed, const HostRuns* hosts)
    : self_(self),
      size_(size),
      key_(key),
      mine_(words.begin(), words.end()),
      failed_(failed),
      hosts_(hosts) {
  agreed_.reserve(mine_.size());
  begin(0);
  if (want().need == Need::Done) next();  // a group of one
}

void WordsRound::begin(std::size_t first) {
  Vote mine = Vote::of(0, key_, 0, 0);
  if (failed_) mine.raise(VoteFlag::Error);
  ops_ = {};
  std::size_t place = 0;
  for (first_ = end_ = first; end_ < mine_.size(); ++end_) {
    const Word& word = mine_[end_];
    if (place + places(word.op) > kVoteWords.size()) break;
    ops_[place] = word.op;
    mine.words[kVoteWords[place++]] = brought(word);
    if (!names_rank(word.op)) continue;
    mine.words[kVoteWords[place++]] = static_cast<std::uint64_t>(self_.value);
  }
  vote_.emplace(self_, size_, mine, Combine::And, hosts_, &ops_);
}

bool WordsRound::met() const {
  return vote_->result().same_key() && !vote_->result().any_flag();
}

void WordsRound::sent() {
  vote_->sent();
  next();
}

void WordsRound::received(std::span<const std::byte> message) {
  vote_->received(message);
  next();
}

// All ranks of a round that is not met leave it after the same vote.
void WordsRound::next() {
  while (want().need == Need::Done && met() && end_ > agreed_.size()) {
    std::size_t place = 0;
    for (std::size_t i = first_; i < end_; ++i) {
      const auto value = vote_->result().words[kVoteWords[place++]];
      AgreedWord& word = agreed_.emplace_back(AgreedWord{static_cast<std::int64_t>(value)});
      if (names_rank(mine_[i].op))
        word.rank = Rank{static_cast<std::int32_t>(vote_->result().words[kVoteWords[place++]])};
    }
    if (end_ < mine_.size()) begin(end_);
  }
}

}  // namespace lockstep::collectives
