#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/loop_nest.h>

namespace lockstep::worker {
namespace {

bool is(const IndexText& a, std::int64_t value) { return a.constant == std::optional(value); }

IndexText combine(const IndexText& a, const char* op, const IndexText& b) {
  return {fmt::format("({} {} {})", a.text, op, b.text), std::max(a.level, b.level), std::nullopt};
}

}  // namespace

std::string indented(const std::string& statement, std::size_t depth) {
  // A statement may have several lines, such as a pragma; each is indented.
  std::string out, line;
  for (char c : statement + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    out += std::string(2 * depth, ' ') + line + "\n";
    line.clear();
  }
  return out;
}

IndexText index_constant(std::int64_t value) { return {fmt::format("{}", value), -1, value}; }
IndexText index_name(std::string name, int level) { return {std::move(name), level, std::nullopt}; }

IndexText operator+(const IndexText& a, const IndexText& b) {
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  if (a.constant && b.constant) return index_constant(*a.constant + *b.constant);
  return combine(a, "+", b);
}

IndexText operator-(const IndexText& a, const IndexText& b) {
  if (is(b, 0)) return a;
  if (a.constant && b.constant) return index_constant(*a.constant - *b.constant);
  return combine(a, "-", b);
}

IndexText operator*(const IndexText& a, const IndexText& b) {
  if (is(a, 0) || is(b, 1)) return a;
  if (is(b, 0) || is(a, 1)) return b;
  if (a.constant && b.constant) return index_constant(*a.constant * *b.constant);
  return combine(a, "*", b);
}

IndexText operator/(const IndexText& a, const IndexText& b) {
  if (is(a, 0) || is(b, 1)) return a;
  return combine(a, "/", b);
}

IndexText operator%(const IndexText& a, const IndexText& b) {
  if (is(a, 0)) return a;
  if (is(b, 1)) return index_constant(0);
  return combine(a, "%", b);
}

IndexText LoopNest::open(const IndexText& size) {
  const int level = static_cast<int>(loops_.size());
  std::string variable = fmt::format("i{}", level);
  loops_.push_back({variable, size.text, {}});
  before_.emplace_back();
  after_.emplace_back();
  return index_name(std::move(variable), level);
}

void LoopNest::open_as(std::string header) {
  loops_.push_back({{}, {}, std::move(header)});
  before_.emplace_back();
  after_.emplace_back();
}

void LoopNest::total(int level, Total total) {
  before(level, fmt::format("{} {} = {};", total.type, total.name, total.first));
  totals_.push_back(std::move(total));
}

void LoopNest::before(int level, std::string statement) {
  before_[static_cast<std::size_t>(level + 1)].push_back(std::move(statement));
}

void LoopNest::after(int level, std::string statement) {
  after_[static_cast<std::size_t>(level + 1)].push_back(std::move(statement));
}

void LoopNest::split(std::size_t loops, std::string first, std::string last) {
  split_ = loops;
  first_ = std::move(first);
  last_ = std::move(last);
}

std::string LoopNest::header(std::size_t level) const {
  const Loop& loop = loops_[level];
  if (!loop.header.empty()) return loop.header;
  if (level >= split_)
    return fmt::format("for (long {0} = 0; {0} < {1}; ++{0})", loop.variable, loop.size);
  IndexText before = index_constant(0), inside = index_constant(1);
  const auto text = [](const std::string& of) { return index_name(of, 0); };
  for (std::size_t l = 0; l < level; ++l)
    before = before * text(loops_[l].size) + text(loops_[l].variable);
  for (std::size_t l = level + 1; l < split_; ++l) inside = inside * text(loops_[l].size);
  // Iterations from `first` on that belong to the loops around, in steps of `inside`.
  const std::string first =
      level == 0 ? (text(first_) / inside).text
                 : fmt::format("({0} > {1} ? ({0} - {1}) / {2} : 0)", first_,
                               (before * text(loop.size) * inside).text, inside.text);
  if (level == 0 && split_ == 1)
    return fmt::format("for (long {0} = {1}; {0} < {2}; ++{0})", loop.variable, first, last_);
  return fmt::format("for (long {0} = {1}; {0} < {2} && {3} < {4}; ++{0})", loop.variable, first,
                     loop.size, ((before * text(loop.size) + text(loop.variable)) * inside).text,
                     last_);
}

std::string LoopNest::text(std::size_t first, std::size_t depth) const {
  std::string out;
  for (std::size_t level = first; level <= loops_.size(); ++level, ++depth) {
    for (const std::string& statement : before_[level]) out += indented(statement, depth);
    if (level == loops_.size()) break;
    if (level + 1 == loops_.size() && !pragma_.empty()) out += pragma_ + "\n";
    out += indented(header(level) + " {", depth);
  }
  for (std::size_t level = loops_.size() + 1; level-- > first; --depth) {
    for (const std::string& statement : after_[level]) out += indented(statement, depth);
    if (level > first) out += indented("}", depth - 1);
  }
  return out;
}

}  // namespace lockstep::worker
