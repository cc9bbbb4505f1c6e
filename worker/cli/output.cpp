#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {

int print_result(std::string_view text, int code) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return code;
  return complain(
      std::string("the result could not be written to stdout (") + std::strerror(errno) + ").",
      kEnvironment);
}

int complain(std::string_view sentence, int code) {
  std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
  return code;
}

int complain(const Status& failure) { return complain(failure.message, exit_code(failure.code)); }

bool colourful() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr && term != nullptr &&
         std::strcmp(term, "dumb") != 0;
}

}  // namespace lockstep::worker::cli
