// The bytes of messages beside a file that keeps them: a change of the wire format changes a line of that file.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::test {

/// Each line of the file at `path` is the name of a message and its bytes in hex. With
/// LOCKSTEP_WRITE_GOLDEN set, the file is written instead of compared.
inline void expect_golden_bytes(const std::string& path,
                                const std::vector<std::pair<std::string, Bytes>>& messages) {
  const auto hex = [](std::span<const std::byte> bytes) {
    std::string out;
    for (const std::byte b : bytes)
      for (const int shift : {4, 0}) out += "0123456789abcdef"[(std::to_integer<int>(b) >> shift) & 15];
    return out;
  };
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) {
    std::ofstream out(path);
    for (const auto& [name, bytes] : messages) out << name << ' ' << hex(bytes) << '\n';
  }
  std::map<std::string, std::string> golden;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    ASSERT_NE(space, std::string::npos) << path << ": " << line;
    golden[line.substr(0, space)] = line.substr(space + 1);
  }
  EXPECT_EQ(golden.size(), messages.size()) << path;
  for (const auto& [name, bytes] : messages) EXPECT_EQ(hex(bytes), golden[name]) << path << ": " << name;
}

}  // namespace lockstep::test
