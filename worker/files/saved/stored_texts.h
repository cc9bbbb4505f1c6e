// The texts of a saved program: each name, file and size expression is stored once, and other
// records refer to it by number. Internal to this room.
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

/// Stored bytes that are not a program. Thrown while one file is read; the reader turns it into a
/// Status.
class StoredFlaw : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Numbers texts in order of first use, so that equal programs are stored alike.
class TextWriter {
 public:
  [[nodiscard]] TextId id(std::string_view text);
  [[nodiscard]] TextId id(const shapes::Expr& expr) { return id(std::string_view(expr.text())); }
  [[nodiscard]] std::vector<std::string> take() && { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  std::map<std::string, TextId, std::less<>> known_;
};

/// Both functions throw StoredFlaw: for a number without a text, or a text that is not an
/// expression.
class TextReader {
 public:
  explicit TextReader(std::vector<std::string> texts)
      : texts_(std::move(texts)), exprs_(texts_.size()) {}
  [[nodiscard]] const std::string& text(TextId id) const;
  [[nodiscard]] const shapes::Expr& expr(TextId id);

 private:
  std::vector<std::string> texts_;
  std::vector<std::optional<shapes::Expr>> exprs_;  // texts that expr() has parsed so far
};

}  // namespace lockstep::worker
