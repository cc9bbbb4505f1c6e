// The texts of a saved program: each name, file and size expression stands there once, and all else
// has its number. Internal to this room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::worker {

using TextId = std::uint32_t;

/// Stored bytes say what no program says. Leaves the reading of one file, which makes a Status of
/// it.
class StoredFlaw : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// In order of first use, so that equal programs are stored alike.
class TextWriter {
 public:
  [[nodiscard]] TextId id(std::string_view text);
  [[nodiscard]] TextId id(const shapes::Expr& expr) { return id(std::string_view(expr.text())); }
  [[nodiscard]] std::vector<std::string> take() && { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  std::map<std::string, TextId, std::less<>> known_;
};

/// Both throw StoredFlaw: for a number that no text has, for a text that is no expression.
class TextReader {
 public:
  explicit TextReader(std::vector<std::string> texts)
      : texts_(std::move(texts)), exprs_(texts_.size()) {}
  [[nodiscard]] const std::string& text(TextId id) const;
  [[nodiscard]] const shapes::Expr& expr(TextId id);

 private:
  std::vector<std::string> texts_;
  std::vector<std::optional<shapes::Expr>> exprs_;  // of those that were asked for
};

}  // namespace lockstep::worker
