#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/source_guard.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// The sizes and ints of a decision by the names that users write.
class SourceNames {
 public:
  explicit SourceNames(const Decision& decision) {
    const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
    for (const SourceDecision& source : decision.sources) {
      if (source.spec.kind != Kind::Tensor && source.spec.kind != Kind::Int) continue;
      for (std::size_t d = 0; d < source.dims.size(); ++d) {
        const DimDecision& dim = source.dims[d];
        names_.push_back(
            {source.spec.kind == Kind::Int ? source.spec.name : size_text(source.spec.name, d),
             dim.is_symbol ? Expr::symbol(symbols[dim.symbol]) : Expr(dim.value),
             dim.is_symbol && symbols[dim.symbol].unbacked});
      }
    }
  }

  /// Takes the longest name that `rest` starts with: names may hold any bytes.
  std::optional<Expr> take(std::string_view& rest) {
    const Name* longest = nullptr;
    for (const Name& name : names_)
      if (starts_with_word(rest, name.text) &&
          (longest == nullptr || longest->text.size() < name.text.size()))
        longest = &name;
    if (longest == nullptr) return std::nullopt;
    if (longest->unbacked) unbacked_ = longest->text;
    if (const auto fixed = longest->value.constant())
      fixed_ += fmt::format("{}{} is {}", fixed_.empty() ? "" : ", ", longest->text, *fixed);
    rest.remove_prefix(longest->text.size());
    return longest->value;
  }

  /// "x.size(0), x.size(1), n and 12 more"
  [[nodiscard]] std::string known() const {
    constexpr std::size_t kShown = 6;
    std::string out;
    for (std::size_t i = 0; i < names_.size() && i < kShown; ++i)
      out += (i == 0 ? "" : ", ") + names_[i].text;
    if (names_.size() > kShown) out += fmt::format(" and {} more", names_.size() - kShown);
    return names_.empty() ? "none" : out;
  }
  /// The last unbacked size that was taken; empty if none was taken.
  [[nodiscard]] const std::string& unbacked() const { return unbacked_; }
  /// "x.size(1) is 16": the static sizes that were taken.
  [[nodiscard]] const std::string& fixed() const { return fixed_; }

 private:
  struct Name {
    std::string text;
    Expr value;
    bool unbacked = false;
  };

  static bool of_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '[' || (static_cast<unsigned char>(c) & 0x80) != 0;
  }
  /// True if `text` starts with the whole word; false for "n" in "nodes" and in "n.size(0)".
  static bool starts_with_word(std::string_view text, const std::string& word) {
    if (!text.starts_with(word)) return false;
    return text.size() == word.size() || !of_word(word.back()) || !of_word(text[word.size()]);
  }

  std::vector<Name> names_;
  std::string unbacked_, fixed_;
};

Status refused(Code code, std::string message) { return {code, std::move(message), {}, {}}; }

/// Reads a text that names the sizes of a decision. For errors: `what` names the text, `like` is an
/// example.
template <class T>
Result<T> read_with(SourceNames& names, std::string_view text, std::string_view what,
                    std::string_view like,
                    std::optional<T> (*read)(std::string_view, const shapes::NameReader&,
                                             std::string_view&)) {
  std::string_view unread;
  auto out = read(
      text, [&](std::string_view& rest) { return names.take(rest); }, unread);
  if (!out)
    return refused(
        Code::BadInput,
        fmt::format("{} cannot be read {}; write it like \"{}\", about the sizes and ints of this "
                    "version: {}",
                    what, unread.empty() ? "to its end" : fmt::format("from \"{}\" on", unread),
                    like, names.known()));
  if (!names.unbacked().empty())
    return refused(Code::BadInput,
                   fmt::format("{} is about {}, which is marked unbacked: no version may rely on "
                               "its value; mark it dynamic instead",
                               what, names.unbacked()));
  return *std::move(out);
}

std::string named(std::string_view kind, std::string_view text, const shapes::Location& where) {
  return fmt::format("the {} \"{}\"{}{}", kind, text, where.file.empty() ? "" : " at ",
                     where.file.empty() ? "" : where.text());
}

}  // namespace

Result<std::optional<shapes::Guard>> read_guard(std::string_view condition,
                                                const shapes::Location& where,
                                                const Decision& decision) {
  SourceNames names(decision);
  const std::string what = named("guard", condition, where);
  auto predicate =
      read_with(names, condition, what, "x.size(0) % 8 == 0", &shapes::parse_condition);
  if (!predicate) return predicate.error();
  const auto settled = predicate->constant();
  if (settled && !*settled)
    return refused(
        Code::BranchDivergence,
        fmt::format("{} is false for every input of this version{}{}; a version can rely "
                    "only on what its decision allows",
                    what, names.fixed().empty() ? "" : ", in which ", names.fixed()));
  if (settled) return std::optional<shapes::Guard>();
  return std::optional(shapes::Guard{*std::move(predicate), where});
}

Result<std::optional<UniformSize>> read_uniform(std::string_view size, std::string_view what,
                                                const shapes::Location& where,
                                                const Decision& decision) {
  SourceNames names(decision);
  auto expr = read_with<shapes::Expr>(names, size, named("uniform size", size, where),
                                      "x.size(0) * 2", &shapes::parse_expr);
  if (!expr) return expr.error();
  if (expr->constant()) return std::optional<UniformSize>();
  return std::optional(UniformSize{*std::move(expr), {}, std::string(what), where});
}

}  // namespace lockstep::worker
