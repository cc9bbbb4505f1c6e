// The text that the example learns from: lines of real files, cut into batches.
//
// A line of n bytes is a sequence of n+1 predictions: the first byte from a start mark, each other
// byte from the byte before it, the line's end from the last byte. So an empty line is an ordinary
// sequence of one prediction (its end), and a one-byte line a sequence of two; no line is dropped.
// A line longer than kMaxBytes is cut into pieces, each a line of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moe_text {

inline constexpr std::int64_t kStart = 256;  // the token that starts a line
inline constexpr std::int64_t kVocabulary = 257;
inline constexpr std::size_t kMaxBytes = 127;

/// Lines of text: every tenth line is for testing, the others are for training.
struct Text {
  std::vector<std::string> train, held_out;
  std::int64_t empty_lines = 0, one_byte_lines = 0, cut_lines = 0;

  /// Entropies in nats per predicted byte of the held-out lines, under counts of the training lines
  /// (add-one smoothing): each byte alone, and given the byte before it.
  double unigram = 0, bigram = 0;
};

/// Returns the path of the default text: the text of a packed folder, else the licence texts of
/// Debian and its derivatives.
std::string usual_text();

/// Reads the files into `text`; a directory stands for its regular files, without links. False:
/// `error` says why, and what to do.
bool read_text(const std::vector<std::string>& paths, Text& text, std::string& error);

/// One rank's share of a batch of lines, padded to its own longest line.
struct LineBatch {
  std::int64_t lines = 0, width = 1;  // width >= 1, also without lines
  std::vector<std::int64_t> tokens;   // [lines, width], 0 where padded
  std::vector<std::int64_t> rows;     // positions in `tokens` that have a prediction, ascending
  std::vector<std::int64_t> targets;  // the byte to predict at each position in `rows`
};

/// Returns the contiguous share of rank `rank` in the batch of `count` lines from `first` on; after
/// the last line comes the first.
LineBatch share_of_batch(const std::vector<std::string>& lines, std::size_t first,
                         std::size_t count, int rank, int ranks);

}  // namespace moe_text
