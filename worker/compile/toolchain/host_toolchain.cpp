#include <fmt/format.h>

#include <lockstep/worker/compile/toolchain/child_process.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>
#include <lockstep/worker/compile/toolchain/memory_file.h>

namespace lockstep::worker {
namespace {

constexpr std::size_t kMessageBytes = 64 * 1024;

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the first line with an error, else the first line. Skips the message that the linker
/// failed: the linker's own message is above it.
std::string gist(const std::string& messages) {
  const auto error = messages.find("error:");
  auto from = error == std::string::npos ? 0 : messages.rfind('\n', error) + 1;
  if (messages.compare(from, 9, "collect2:") == 0) from = 0;
  return messages.substr(from, messages.find('\n', from) - from);
}

/// Returns the error of a failed compiler. It is CompileError only if a message is about the text.
Status failure(const std::string& compiler, const ChildEnd& end, const std::string& messages,
               std::chrono::milliseconds limit) {
  if (end.timed_out)
    return environment_error(
        fmt::format("{} did not finish within {} s", compiler, limit.count() / 1000));
  if (end.signal != 0)
    return environment_error(fmt::format("{} was ended by signal {}", compiler, end.signal));
  const bool about_text = messages.find("<stdin>:") != std::string::npos &&
                          messages.find("error:") != std::string::npos;
  if (about_text)
    return Status{Code::CompileError,
                  fmt::format("{} rejects a generated kernel: {}", compiler, gist(messages))};
  if (end.status == 127 && messages.empty())
    return environment_error(fmt::format("there is no compiler {}", compiler));
  if (messages.empty())
    return environment_error(
        fmt::format("{} failed with status {} and said nothing", compiler, end.status));
  return environment_error(
      fmt::format("{} failed with status {}: {}", compiler, end.status, gist(messages)));
}

}  // namespace

Result<std::unique_ptr<HostToolchain>> HostToolchain::open(Options options) {
  std::unique_ptr<HostToolchain> toolchain(new HostToolchain(std::move(options)));
  const Options& chosen = toolchain->options_;
  // Asks for the version, and for the commands of a compilation, which spell out the target.
  for (const bool is_first : {true, false}) {
    std::vector<std::string> arguments{chosen.compiler, "--version"};
    if (!is_first) {
      // Keeps GCC from turning copies of sixteen elements, which sums use as vectors, into calls,
      // and lets it unroll their loops.
      if (toolchain->identity_.find("Free Software Foundation") != std::string::npos)
        for (const char* flag : {"-fno-tree-loop-distribute-patterns", "-fpeel-loops"})
          toolchain->options_.flags.emplace_back(flag);
      arguments = {chosen.compiler};
      arguments.insert(arguments.end(), chosen.flags.begin(), chosen.flags.end());
      arguments.insert(arguments.end(), {"-###", "-E", "-x", "c++", "/dev/null"});
    }
    auto answer = MemoryFile::create();
    if (!answer) return answer.error();
    const auto end = run_child(
        {.arguments = arguments, .errors = (*answer)->descriptor(), .limit = chosen.limit});
    if (!end)
      return environment_error(end.error().message +
                               "; install a C++ compiler or name one in LOCKSTEP_CXX");
    const std::string text = text_of((*answer)->content(kMessageBytes));
    if (end->timed_out || end->signal != 0 || end->status != 0)
      return failure(chosen.compiler, *end, text, chosen.limit);
    toolchain->identity_ += text;
    toolchain->cost_.cpu += end->cpu;
  }
  for (const auto& list : {chosen.flags, chosen.libraries})
    for (const std::string& flag : list) toolchain->identity_ += flag + "\n";
  return toolchain;
}

Result<Bytes> HostToolchain::build(std::string_view text) {
  auto source = MemoryFile::create(std::as_bytes(std::span(text)));
  if (!source) return source.error();
  auto object = MemoryFile::create();
  if (!object) return object.error();
  auto messages = MemoryFile::create();
  if (!messages) return messages.error();
  ChildRun run{.arguments = {options_.compiler},
               .input = (*source)->descriptor(),
               .errors = (*messages)->descriptor(),
               .output = (*object)->descriptor(),
               .limit = options_.limit};
  run.arguments.insert(run.arguments.end(), options_.flags.begin(), options_.flags.end());
  run.arguments.insert(run.arguments.end(), {"-w", "-x", "c++", "-", "-o", "/dev/fd/3"});
  run.arguments.insert(run.arguments.end(), options_.libraries.begin(), options_.libraries.end());
  const auto end = run_child(run);
  if (!end) return end.error();
  {
    const std::scoped_lock lock(counting_);
    ++cost_.compiles;
    cost_.cpu += end->cpu;
  }
  const std::string said = text_of((*messages)->content(kMessageBytes));
  if (end->timed_out || end->signal != 0 || end->status != 0)
    return failure(options_.compiler, *end, said, options_.limit);
  Bytes bytes = (*object)->content();
  if (bytes.empty())
    return environment_error(
        fmt::format("{} reported success but wrote nothing", options_.compiler));
  return bytes;
}

}  // namespace lockstep::worker
