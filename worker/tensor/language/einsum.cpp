// Einstein sums: parses the equation, brings every operand to distinct letters that are needed
// elsewhere, then multiplies two operands at a time until one is left.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// A letter, or the place of an unnamed dim counted from the end: -1, -2, ...
using Label = int;
using Labels = std::vector<Label>;

constexpr Label kUnnamed = 0;  // "..." in a parsed equation

bool has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Equation {
  std::vector<Labels> operands;  // with kUnnamed where "..." stands
  std::optional<Labels> result;
};

Labels letters_of(std::string_view text, const Line& where) {
  Labels out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isalpha(c) != 0) {
      out.push_back(c);
    } else if (text.substr(i, 3) == "...") {
      if (has(out, kUnnamed)) refuse(where, "einsum", "\"...\" stands twice in one operand");
      out.push_back(kUnnamed);
      i += 2;
    } else {
      refuse(where, "einsum",
             fmt::format("\"{}\" holds '{}'; write letters for dims, as in \"ij,jk->ik\"", text,
                         text[i]));
    }
  }
  return out;
}

Equation parsed(std::string_view text, const Line& where) {
  std::string dense;
  for (const char c : text)
    if (c != ' ') dense += c;
  Equation out;
  std::string_view left = dense;
  if (const std::size_t arrow = left.find("->"); arrow != left.npos) {
    out.result = letters_of(left.substr(arrow + 2), where);
    left = left.substr(0, arrow);
  }
  for (std::size_t comma = left.find(','); comma != left.npos; comma = left.find(',')) {
    out.operands.push_back(letters_of(left.substr(0, comma), where));
    left = left.substr(comma + 1);
  }
  out.operands.push_back(letters_of(left, where));
  return out;
}

/// `labels` with the `count` unnamed dims in place of "...".
Labels spelled(const Labels& labels, std::int64_t count) {
  Labels out;
  for (const Label label : labels) {
    if (label != kUnnamed) out.push_back(label);
    for (std::int64_t i = count; label == kUnnamed && i > 0; --i)
      out.push_back(static_cast<Label>(-i));
  }
  return out;
}

/// An operand, or the product of several. No label occurs twice.
struct Term {
  Tensor x;
  Labels labels;
};

/// The elements of `x` at which dims `p` < `q`, of equal sizes n, have equal indices; that index
/// becomes the last dim. The two dims are joined into one of n * n, padded with n zeros, and viewed
/// as n rows of n + 1: the first column is the diagonal.
Tensor diagonal_of(const Tensor& x, std::int64_t p, std::int64_t q, const Line& where) {
  Dims order;
  for (std::int64_t d = 0; d < x.ndim(); ++d)
    if (d != p && d != q) order.push_back(d);
  order.insert(order.end(), {p, q});
  const Tensor last = permute(x, order, where);
  std::vector<Expr> sizes = meta_of(last).sizes;
  const Expr n = sizes.back();
  sizes.pop_back();
  sizes.back() = n * n;
  const SymInt size = x.trace()->integer(n);
  const Tensor padded = pad(view(last, sizes, where), -1, 0, size, where);
  sizes.back() = n;
  sizes.push_back(n + 1);
  const Tensor column = slice(view(padded, sizes, where), -1, 0, 1, where);
  sizes.pop_back();
  return view(column, std::move(sizes), where);
}

/// One call: the size of each label, and the terms still to be multiplied.
class Einsum {
 public:
  Einsum(std::string_view text, const std::vector<Tensor>& given, const Line& where)
      : where_(where), trace_(trace_of("einsum", given, where)) {
    Equation equation = parsed(text, where);
    need(equation, given);
    const std::vector<Tensor> xs = of_one_dtype("einsum", given, where);
    std::int64_t unnamed = 0;
    std::vector<Labels> labels;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      labels.push_back(spelled(equation.operands[i], unnamed_of(equation.operands[i], xs[i])));
      unnamed = std::max(unnamed, unnamed_of(equation.operands[i], xs[i]));
    }
    result_ = equation.result ? spelled(*equation.result, unnamed) : implied(labels, unnamed);
    learn_sizes(labels, xs);
    need_result();
    for (std::size_t i = 0; i < xs.size(); ++i) terms_.push_back(distinct(xs[i], labels[i]));
  }

  Tensor value() {
    for (std::size_t i = 0; i < terms_.size(); ++i) terms_[i] = summed(i);
    while (terms_.size() > 1) {
      const auto [a, b] = next_pair();
      const Labels kept = labels_of_product(a, b);
      terms_[a] = product(terms_[a], terms_[b], kept);
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(b));
    }
    return placed(terms_[0], result_);
  }

 private:
  void need(const Equation& equation, const std::vector<Tensor>& xs) const {
    if (equation.operands.size() != xs.size())
      refuse(where_, "einsum",
             fmt::format("operands of the equation: {}, tensors: {}", equation.operands.size(),
                         xs.size()));
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Labels& labels = equation.operands[i];
      const std::int64_t rest = unnamed_of(labels, xs[i]);
      if (rest < 0 || (rest > 0 && !has(labels, kUnnamed)))
        refuse(where_, "einsum",
               fmt::format("operand {} of the equation has {} letters for {}; write \"...\" for "
                           "dims without a name",
                           i, xs[i].ndim() - rest, meta_text(meta_of(xs[i]))));
    }
  }
  static std::int64_t unnamed_of(const Labels& labels, const Tensor& x) {
    return x.ndim() - static_cast<std::int64_t>(labels.size()) + (has(labels, kUnnamed) ? 1 : 0);
  }
  void need_result() const {
    for (auto label = result_.begin(); label != result_.end(); ++label) {
      if (std::find(result_.begin(), label, *label) != label)
        refuse(where_, "einsum",
               fmt::format("the result names '{}' twice", static_cast<char>(*label)));
      if (!sizes_.contains(*label))
        refuse(
            where_, "einsum",
            fmt::format("the result names '{}', which no operand has", static_cast<char>(*label)));
    }
  }
  static Labels implied(const std::vector<Labels>& operands, std::int64_t unnamed) {
    std::map<Label, int> times;
    for (const Labels& labels : operands)
      for (const Label label : labels) ++times[label];
    Labels out;
    for (std::int64_t i = unnamed; i > 0; --i) out.push_back(static_cast<Label>(-i));
    for (const auto& [label, n] : times)
      if (label > 0 && n == 1) out.push_back(label);
    return out;
  }

  void learn_sizes(const std::vector<Labels>& operands, const std::vector<Tensor>& xs) {
    for (std::size_t i = 0; i < xs.size(); ++i)
      for (std::size_t d = 0; d < operands[i].size(); ++d) {
        const Expr size = meta_of(xs[i]).sizes[d];
        const auto [known, fresh] = sizes_.try_emplace(operands[i][d], size);
        if (!fresh)
          known->second =
              broadcast_sizes("einsum", *trace_, {{known->second}, {size}}, where_).at(0);
      }
  }

  /// Drops dims of size 1, which broadcast, and takes the diagonal for a letter that occurs twice.
  Term distinct(const Tensor& x, Labels labels) const {
    std::vector<Expr> sizes;
    Labels kept;
    const std::vector<Expr> from = meta_of(x).sizes;
    for (std::size_t d = 0; d < labels.size(); ++d) {
      if (from[d] == Expr(1)) continue;
      sizes.push_back(trace_->env().simplify(sizes_.at(labels[d])));
      kept.push_back(labels[d]);
    }
    Term out{view(x, std::move(sizes), where_), std::move(kept)};
    for (std::size_t p = 0; p < out.labels.size();) {
      const Label label = out.labels[p];
      const auto again = std::find(out.labels.begin() + static_cast<std::ptrdiff_t>(p) + 1,
                                   out.labels.end(), label);
      if (again == out.labels.end()) {
        ++p;
        continue;
      }
      out.x = diagonal_of(out.x, static_cast<std::int64_t>(p), again - out.labels.begin(), where_);
      out.labels.erase(again);
      out.labels.erase(out.labels.begin() + static_cast<std::ptrdiff_t>(p));
      out.labels.push_back(label);
    }
    return out;
  }

  [[nodiscard]] bool needed(Label label, std::size_t a, std::size_t b) const {
    if (has(result_, label)) return true;
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (i != a && i != b && has(terms_[i].labels, label)) return true;
    return false;
  }
  /// The term summed over the labels that neither the result nor another term has.
  [[nodiscard]] Term summed(std::size_t i) const {
    const Term& term = terms_[i];
    Dims over;
    Labels kept;
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      if (needed(term.labels[d], i, i))
        kept.push_back(term.labels[d]);
      else
        over.push_back(static_cast<std::int64_t>(d));
    }
    return over.empty() ? term : Term{sum(term.x, over, Keep::Drop, where_), std::move(kept)};
  }
  [[nodiscard]] Labels labels_of_product(std::size_t a, std::size_t b) const {
    Labels out;
    for (const std::size_t i : {a, b})
      for (const Label label : terms_[i].labels)
        if (!has(out, label) && needed(label, a, b)) out.push_back(label);
    return out;
  }

  [[nodiscard]] double elements(const Labels& labels) const {
    constexpr std::int64_t kUsual = 64;  // stands for a size known only when the graph runs
    double out = 1;
    for (const Label label : labels)
      out *= static_cast<double>(trace_->env().peek(sizes_.at(label), kUsual));
    return out;
  }
  [[nodiscard]] std::pair<std::size_t, std::size_t> next_pair() const {
    std::pair<std::size_t, std::size_t> best{0, 1};
    std::optional<double> least;
    for (std::size_t a = 0; a < terms_.size(); ++a)
      for (std::size_t b = a + 1; b < terms_.size() && terms_.size() > 2; ++b) {
        const double growth = elements(labels_of_product(a, b)) - elements(terms_[a].labels) -
                              elements(terms_[b].labels);
        if (least && growth >= *least) continue;
        least = growth;
        best = {a, b};
      }
    return best;
  }

  [[nodiscard]] Expr size(Label label) const { return trace_->env().simplify(sizes_.at(label)); }
  [[nodiscard]] Expr size(const Labels& labels) const {
    std::vector<Expr> all;
    for (const Label label : labels) all.push_back(size(label));
    return trace_->env().simplify(shapes::product(all));
  }
  /// The term with its dims in this order.
  [[nodiscard]] Tensor ordered(const Term& term, const Labels& order) const {
    Dims dims;
    for (const Label label : order)
      dims.push_back(std::find(term.labels.begin(), term.labels.end(), label) -
                     term.labels.begin());
    return std::is_sorted(dims.begin(), dims.end()) ? term.x : permute(term.x, dims, where_);
  }
  /// The term with a dim for each of `labels`; dims that the term lacks have size 1.
  [[nodiscard]] Tensor placed(const Term& term, const Labels& labels) const {
    Labels mine;
    std::vector<Expr> sizes;
    for (const Label label : labels) {
      const bool is_mine = has(term.labels, label);
      if (is_mine) mine.push_back(label);
      sizes.push_back(is_mine ? size(label) : Expr(1));
    }
    return view(ordered(term, mine), std::move(sizes), where_);
  }

  [[nodiscard]] Term product(const Term& a, const Term& b, const Labels& kept) const {
    Labels batch, rows, columns, over;
    for (const Label label : a.labels)
      (!has(b.labels, label) ? rows : has(kept, label) ? batch : over).push_back(label);
    for (const Label label : b.labels)
      if (!has(a.labels, label)) columns.push_back(label);
    const auto joined = [](std::initializer_list<Labels> parts) {
      Labels out;
      for (const Labels& part : parts) out.insert(out.end(), part.begin(), part.end());
      return out;
    };
    Labels labels = joined({batch, rows, columns});
    if (over.empty() || (rows.empty() && columns.empty())) {
      const Labels all = joined({labels, over});
      Dims dims;
      for (std::size_t d = labels.size(); d < all.size(); ++d)
        dims.push_back(static_cast<std::int64_t>(d));
      // f16 and bf16 are rounded once, after the sum, as in a product of matrices.
      const Tensor x = TensorOperand(widened(placed(a, all), where_), where_) *
                       TensorOperand(widened(placed(b, all), where_), where_);
      const Tensor total = dims.empty() ? x : sum(x, dims, Keep::Drop, where_);
      return {cast(total, a.x.dtype(), where_), std::move(labels)};
    }
    const Tensor left = view(ordered(a, joined({batch, rows, over})),
                             {size(batch), size(rows), size(over)}, where_);
    const Tensor right = view(ordered(b, joined({batch, over, columns})),
                              {size(batch), size(over), size(columns)}, where_);
    std::vector<Expr> sizes;
    for (const Label label : labels) sizes.push_back(size(label));
    return {view(matmul(left, right, where_), std::move(sizes), where_), std::move(labels)};
  }

  Line where_;
  std::shared_ptr<Trace> trace_;
  Labels result_;
  std::map<Label, Expr> sizes_;
  std::vector<Term> terms_;
};

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Line where) {
  const NamedCall call("einsum");
  return Einsum(equation, operands, where).value();
}

}  // namespace lockstep::worker
