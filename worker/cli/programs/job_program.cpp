#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/cli/programs/job_program.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {

int become_program(std::string_view program, const std::vector<std::string>& arguments) {
  std::error_code failed;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / program;
  std::vector<std::string> words{path.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  return complain(fmt::format("{} cannot be started: {}; it belongs beside this program.",
                              path.string(), std::strerror(errno)),
                  kEnvironment);
}

}  // namespace lockstep::worker::cli
