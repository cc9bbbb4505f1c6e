#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/coordinator/speech/port_file.h>

namespace lockstep::coordinator {
namespace {

std::string_view line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

}  // namespace

Result<void> PortFile::write(const std::string& file, std::string_view format) const {
  std::string text = fmt::format("{}\naddress {}\n", format, endpoint.text());
  if (secret)
    text += fmt::format(
        "secret {}\n",
        std::string_view(reinterpret_cast<const char*>(secret->data()), secret->size()));
  const std::string draft = fmt::format("{}.{}", file, ::getpid());
  ::unlink(draft.c_str());  // left by a killed process with this pid
  const int out = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool whole = out >= 0 && ::fchmod(out, 0600) == 0 &&
                     ::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     ::fsync(out) == 0;
  const bool kept = whole && ::rename(draft.c_str(), file.c_str()) == 0;
  const int why = errno;
  if (out >= 0) ::close(out);
  if (kept) return {};
  ::unlink(draft.c_str());
  return Status{Code::Environment,
                fmt::format("The port file {} cannot be written: {}.", file, std::strerror(why))};
}

Result<PortFile> PortFile::read(const std::string& file, std::string_view format) {
  const auto text = collectives::read_private(file);
  if (!text) return text.error();
  std::string_view rest = *text;
  const bool coordinator = format == kCoordinatorFile;
  const Status other{
      Code::BadInput,
      fmt::format("{} is no {} of this version ({}).", file,
                  coordinator ? "port file of a coordinator" : "address file", format)};
  if (line(rest) != format) return other;
  std::string_view address = line(rest), secret = line(rest);
  if (!address.starts_with("address ")) return other;
  const auto endpoint = Endpoint::parse(address.substr(8));
  if (!endpoint) return other;
  PortFile out{*endpoint, std::nullopt};
  if (secret.empty()) return out;
  if (!secret.starts_with("secret ")) return other;
  auto known = collectives::secret_of(secret.substr(7), file);
  if (!known) return known.error();
  out.secret = *std::move(known);
  return out;
}

}  // namespace lockstep::coordinator
