#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/coordinator/messages/port_file.h>

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
  const auto fault = write_whole_file(file, text, {.mode = 0600});
  if (!fault) return {};
  return environment_error(
      fmt::format("The port file {} cannot be written: {}.", file, fault->reason()));
}

Result<PortFile> PortFile::read(const std::string& file, std::string_view format) {
  const auto text = collectives::read_private(file);
  if (!text) return text.error();
  std::string_view rest = *text;
  const bool coordinator = format == kCoordinatorFile;
  const Status other =
      bad_input(fmt::format("{} is no {} of this version ({}).", file,
                            coordinator ? "port file of a coordinator" : "address file", format));
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
