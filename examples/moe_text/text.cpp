#include "text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace moe_text {
namespace {

namespace fs = std::filesystem;

void add_lines(const std::string& bytes, std::vector<std::string>& lines, Text& text) {
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    const std::string line = bytes.substr(begin, end - begin);
    text.empty_lines += line.empty();
    text.one_byte_lines += line.size() == 1;
    text.cut_lines += line.size() > kMaxBytes;
    for (std::size_t at = 0; at == 0 || at < line.size(); at += kMaxBytes)
      lines.push_back(line.substr(at, kMaxBytes));
    begin = end + 1;
  }
}

/// Calls see(previous token, byte) for every prediction of the lines.
template <class See>
void predictions(const std::vector<std::string>& lines, See see) {
  for (const std::string& line : lines) {
    std::int64_t previous = kStart;
    for (const unsigned char byte : line + '\n') {
      see(previous, byte);
      previous = byte;
    }
  }
}

void measure_entropies(Text& text) {
  std::vector<std::array<double, 256>> pair(kVocabulary);
  for (auto& row : pair) row.fill(1.0);
  std::array<double, 256> single{};
  single.fill(1.0);
  predictions(text.train, [&](std::int64_t previous, unsigned char byte) {
    ++pair[static_cast<std::size_t>(previous)][byte];
    ++single[byte];
  });
  auto total = [](const std::array<double, 256>& row) {
    double sum = 0;
    for (const double count : row) sum += count;
    return sum;
  };
  const double singles = total(single);
  double n = 0;
  predictions(text.held_out, [&](std::int64_t previous, unsigned char byte) {
    const auto& row = pair[static_cast<std::size_t>(previous)];
    text.unigram -= std::log(single[byte] / singles);
    text.bigram -= std::log(row[byte] / total(row));
    ++n;
  });
  text.unigram /= n;
  text.bigram /= n;
}

}  // namespace

std::string usual_text() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  const fs::path packed = program.parent_path().parent_path() / "share" / "lockstep" / "text";
  return fs::is_directory(packed, failed) ? packed.string() : "/usr/share/common-licenses";
}

bool read_text(const std::vector<std::string>& paths, Text& text, std::string& error) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path, failed))
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // a directory lists its files in no fixed order
  std::vector<std::string> lines;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      error = "cannot read " + file.string() + "; give readable files with --text";
      return false;
    }
    add_lines({std::istreambuf_iterator<char>(in), {}}, lines, text);
  }
  for (std::size_t i = 0; i < lines.size(); ++i)
    (i % 10 == 9 ? text.held_out : text.train).push_back(lines[i]);
  if (text.held_out.empty()) {
    error = "the text has fewer than 10 lines; give more with --text";
    return false;
  }
  measure_entropies(text);
  return true;
}

LineBatch share_of_batch(const std::vector<std::string>& lines, std::size_t first,
                         std::size_t count, int rank, int ranks) {
  const std::size_t from = count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks);
  const std::size_t to =
      count * static_cast<std::size_t>(rank + 1) / static_cast<std::size_t>(ranks);
  LineBatch batch;
  batch.lines = static_cast<std::int64_t>(to - from);
  for (std::size_t i = from; i < to; ++i) {
    const auto length = static_cast<std::int64_t>(lines[(first + i) % lines.size()].size()) + 1;
    batch.width = std::max(batch.width, length);
  }
  batch.tokens.assign(static_cast<std::size_t>(batch.lines * batch.width), 0);
  for (std::size_t i = from; i < to; ++i) {
    const std::string& line = lines[(first + i) % lines.size()];
    std::int64_t position = static_cast<std::int64_t>(i - from) * batch.width;
    std::int64_t previous = kStart;
    for (const unsigned char byte : line + '\n') {
      batch.tokens[static_cast<std::size_t>(position)] = previous;
      batch.rows.push_back(position++);
      batch.targets.push_back(byte);
      previous = byte;
    }
  }
  return batch;
}

}  // namespace moe_text
