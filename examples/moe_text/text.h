// The text that the example learns from: lines of real files, cut into batches.
//
// A line of n bytes is a sequence of n+1 predictions: from a start mark the first byte, from each
// byte the next, from the last byte the line's end. So an empty line is an ordinary sequence of one
// prediction (its end), and a one-byte line one of two; no line is dropped. Lines longer than
// kMaxBytes are cut into pieces that each start anew.
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

/// The folder of text in a packed folder of programs, else the licence texts of Debian and its
/// derivatives.
std::string usual_text();

/// Reads the files; a directory stands for its regular files, without links. On failure `error`
/// names the file.
bool read_text(const std::vector<std::string>& paths, Text& text, std::string& error);

/// One rank's share of a batch of lines, padded to its own longest line.
struct LineBatch {
  std::int64_t lines = 0, width = 1;  // width >= 1, also without lines
  std::vector<std::int64_t> tokens;   // [lines, width], 0 where padded
  std::vector<std::int64_t> rows;     // positions in tokens that hold a prediction, ascending
  std::vector<std::int64_t> targets;  // the byte to predict at each of rows
};

/// Rank r's contiguous share, of n, of the lines `first` to `first + count` (cyclically).
LineBatch share_of_batch(const std::vector<std::string>& lines, std::size_t first,
                         std::size_t count, int rank, int ranks);

}  // namespace moe_text
