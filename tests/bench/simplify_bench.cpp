// The simplifications of a file, one JSON line each: what they came to, and the median time from
// text to text. Run by sympy_simplify.py, which puts the same to SymPy.
// usage: simplify_bench FILE
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/shapes/shape_env.h>

using namespace lockstep::shapes;

namespace {

std::string simplified(const ShapeEnv& env, const std::string& text) {
  if (const auto expr = parse_expr(text)) return env.simplify(*expr).text();
  const auto predicate = parse_predicate(text);
  if (!predicate) return "not an expression";
  if (const auto answer = env.prove(*predicate)) return *answer ? "True" : "False";
  return predicate->text();
}

double median_us(const ShapeEnv& env, const std::string& text) {
  std::vector<double> times;
  for (int i = 0; i < 201; ++i) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(simplified(env, text));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file) {
    std::fprintf(stderr, "simplify_bench: usage: simplify_bench FILE, which can be read\n");
    return 2;
  }
  ShapeEnv env;
  for (int i = 0; i < 3; ++i) static_cast<void>(env.backed("s", 7, {2, Range::kMax}));
  for (int i = 0; i < 2; ++i) static_cast<void>(env.unbacked("u", {0, Range::kMax}, {}));
  for (std::string line; std::getline(file, line);) {
    const std::size_t arrow = line.find(" => ");
    if (line.starts_with("#") || arrow == std::string::npos) continue;
    const std::string written = line.substr(0, arrow);
    const nlohmann::json out = {{"written", written},
                                {"expected", line.substr(arrow + 4)},
                                {"came_to", simplified(env, written)},
                                {"us", median_us(env, written)}};
    std::printf("%s\n", out.dump().c_str());
  }
  return 0;
}
