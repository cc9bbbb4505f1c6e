#include <fmt/format.h>

#include <lockstep/worker/files/saved/stored_texts.h>

namespace lockstep::worker {

TextId TextWriter::id(std::string_view text) {
  const auto known = known_.find(text);
  if (known != known_.end()) return known->second;
  const auto id = static_cast<TextId>(texts_.size());
  texts_.emplace_back(text);
  known_.emplace(text, id);
  return id;
}

const std::string& TextReader::text(TextId id) const {
  if (id >= texts_.size())
    throw StoredFlaw(fmt::format("it asks for text {} of {}", id, texts_.size()));
  return texts_[id];
}

const shapes::Expr& TextReader::expr(TextId id) {
  const std::string& written = text(id);
  std::optional<shapes::Expr>& read = exprs_[id];
  if (!read) read = shapes::parse_expr(written);
  // The text must be in its normal form too: one expression has one text.
  if (!read || read->text() != written)
    throw StoredFlaw(fmt::format("'{}' is no size expression", written.substr(0, 60)));
  return *read;
}

}  // namespace lockstep::worker
