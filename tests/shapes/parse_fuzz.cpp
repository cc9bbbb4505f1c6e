// libFuzzer target: no text makes the parser crash, and what it reads is printed and read back as
// the same. Built where the compiler is clang; scripts/fuzz-shapes runs it.
#include <cstdio>
#include <cstdlib>

#include <lockstep/shapes/expr/guard.h>

using namespace lockstep::shapes;

namespace {

template <class Parse>
void round_trip(std::string_view text, const Parse& parse) {
  const auto read = parse(text);
  if (!read) return;
  const std::string printed = read->text();
  const auto back = parse(printed);
  if (back && *back == *read && back->text() == printed) return;
  std::fprintf(stderr, "parse_fuzz: it prints `%s`, which is read back as %s%s%s\n",
               printed.c_str(), back ? "`" : "", back ? back->text().c_str() : "nothing",
               back ? "`" : "");
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  round_trip(text, [](std::string_view read) { return parse_expr(read); });
  round_trip(text, [](std::string_view read) { return parse_predicate(read); });
  return 0;
}
