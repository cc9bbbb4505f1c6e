// Subcommands whose part is not built yet: they say so instead of pretending.
#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {

std::function<int()> declare_coordinator(CLI::App& app) {
  app.allow_extras();
  return [] { return complain("coordinator is not available in this version.", kUsage); };
}

std::function<int()> declare_status(CLI::App& app) {
  app.allow_extras();
  return [] { return complain("status is not available in this version.", kUsage); };
}

}  // namespace lockstep::worker::cli
