// lockstep explain DIR
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {

std::function<int()> declare_explain(CLI::App& app) {
  auto directory = std::make_shared<std::string>();
  app.add_option("DIR", *directory, "record or report directory")->required();
  return [] { return complain("explain is not available in this version.", kUsage); };
}

}  // namespace lockstep::worker::cli
