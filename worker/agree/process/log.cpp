#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/log.h>

namespace lockstep::worker {
namespace {

void write_whole(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string CompileLabel::text() const {
  std::string out = fmt::format("[r{}|{}/{}", rank, frame, entry);
  if (attempt > 0) out += fmt::format("_{}", attempt);
  return out + "]";
}

bool Log::on(std::string_view topic) const {
  if (topics_.contains("off")) return false;
  if (topics_.contains(std::string(topic))) return true;
  return topic == "info" && !topics_.empty();  // any topic includes "info"
}

void Log::line(std::string_view topic, std::string_view text) const {
  if (on(topic)) write_whole(fmt::format("{}\n", text));
}

void Log::line(std::string_view topic, const CompileLabel& mark, std::string_view text) const {
  if (!on(topic)) return;
  const std::string prefix =
      ::isatty(STDERR_FILENO) ? fmt::format(fmt::fg(fmt::terminal_color::cyan), "{}", mark.text())
                              : mark.text();
  write_whole(fmt::format("{} {}\n", prefix, text));
}

}  // namespace lockstep::worker
