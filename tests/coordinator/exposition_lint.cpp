#include "exposition_lint.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace lockstep::coordinator {
namespace {

struct Family {
  std::string type;
  bool help = false, closed = false;
};

struct Buckets {
  double last = -1, last_bound = -1e300, infinite = -1, count = -1;
};

class Lint {
 public:
  std::vector<std::string> problems;

  void comment(const std::string& line) {
    static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))"),
        type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary))");
    std::smatch found;
    if (std::regex_match(line, found, help)) {
      open(found[1]);
      families_[current_].help = true;
    } else if (std::regex_match(line, found, type)) {
      open(found[1]);
      families_[current_].type = found[2];
      check_name(found[2]);
    } else {
      problem("no comment of the format", line);
    }
  }

  void sample(const std::string& line) {
    static const std::regex shape(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+))re");
    std::smatch found;
    if (!std::regex_match(line, found, shape)) return problem("no sample", line);
    if (!series_.insert(std::string(found[1]) + "{" + std::string(found[3]) + "}").second)
      problem("the same series twice", line);
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(found[4], &used);
    } catch (...) {
    }
    if (used != found[4].str().size()) problem("no number", line);
    const Family& family = families_[current_];
    if (!family.help || family.type.empty()) problem("a sample before HELP and TYPE", line);
    belongs(found[1], found[3], family, value, line);
  }

  void finish() {
    for (const auto& [key, buckets] : buckets_)
      if (buckets.infinite != buckets.count) problem("+Inf is not the count", key);
  }

 private:
  void problem(const std::string& what, const std::string& where) {
    problems.push_back(what + ": " + where);
  }

  void open(const std::string& name) {
    if (name == current_) return;
    families_[current_].closed = true;
    current_ = name;
    if (families_[name].closed) problem("a family in two places", name);
  }

  void check_name(const std::string& type) {
    const bool total = current_.ends_with("_total");
    if (total != (type == "counter")) problem("_total is for counters, and all of them", current_);
    static const std::regex unit(
        R"((.*_)?(milliseconds|microseconds|nanoseconds|minutes|hours|ms|us|ns|kilobytes|megabytes|percent)(_.*)?)");
    if (std::regex_match(current_, unit)) problem("no base unit", current_);
    if (std::regex_match(current_, std::regex(".*_(count|sum|bucket)")))
      problem("a reserved ending", current_);
    if (std::regex_match(current_, std::regex(".*(counter|gauge|histogram|summary).*")))
      problem("the type is in the name", current_);
  }

  void belongs(const std::string& name, std::string labels, const Family& family, double value,
               const std::string& line) {
    const bool spread = family.type == "histogram" || family.type == "summary";
    std::smatch le;
    const bool has_le = std::regex_search(labels, le, std::regex(R"re(,?le="([^"]*)")re"));
    if (has_le != (family.type == "histogram" && name == current_ + "_bucket"))
      problem("le is for buckets", line);
    if (!spread) {
      if (name != current_) problem("not of its family", line);
      if (family.type == "counter" && value < 0) problem("a counter below zero", line);
      return;
    }
    if (family.type == "histogram" && has_le) {
      const std::string upper = le[1];
      labels = std::regex_replace(labels, std::regex(R"re(,?le="[^"]*")re"), "");
      Buckets& buckets = buckets_[current_ + "{" + labels + "}"];
      const double bound = upper == "+Inf" ? 1e300 : std::stod(upper);
      if (bound <= buckets.last_bound || value < buckets.last) problem("not cumulative", line);
      buckets.last_bound = bound;
      buckets.last = value;
      if (upper == "+Inf") buckets.infinite = value;
    } else if (name == current_ + "_count") {
      if (family.type == "histogram") buckets_[current_ + "{" + labels + "}"].count = value;
    } else if (name != current_ + "_sum") {
      problem("not of its family", line);
    }
  }

  std::string current_;
  std::map<std::string, Family> families_;
  std::set<std::string> series_;
  std::map<std::string, Buckets> buckets_;
};

}  // namespace

std::vector<std::string> lint(std::string_view text) {
  Lint lint;
  if (!text.ends_with('\n')) lint.problems.push_back("the last line does not end");
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#'))
      lint.comment(line);
    else if (!line.empty())
      lint.sample(line);
  }
  lint.finish();
  return lint.problems;
}

}  // namespace lockstep::coordinator
