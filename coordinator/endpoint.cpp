#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>

#include <boost/asio/ip/address.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/coordinator/endpoint.h>

namespace lockstep::coordinator {
namespace {

constexpr std::string_view kFormat = "lockstep.coordinator/1";
constexpr std::size_t kMostFileBytes = 4096;

void fill_with_random(std::span<std::byte> bytes) {
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                   static_cast<int>(bytes.size())) != 1)
    std::abort();  // no source of randomness: nothing that follows could be kept secret
}

Status no_access(Code code, const std::string& file, std::string_view why) {
  return {code, fmt::format("{} cannot be used: {}.", file, why)};
}

/// All of a small file that is this user's alone.
Result<std::string> read_private(const std::string& file) {
  const int in = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (in < 0)
    return no_access(errno == ELOOP ? Code::Version : Code::Environment, file,
                     errno == ELOOP ? "it is a symbolic link" : std::strerror(errno));
  struct stat found {};
  std::string text(kMostFileBytes + 1, '\0');
  const bool known = ::fstat(in, &found) == 0;
  const ssize_t length =
      known && S_ISREG(found.st_mode) ? ::read(in, text.data(), text.size()) : -1;
  ::close(in);
  if (!known || !S_ISREG(found.st_mode))
    return no_access(Code::Version, file, "it is not a regular file");
  if (found.st_uid != ::geteuid()) return no_access(Code::Version, file, "it is another user's");
  if ((found.st_mode & 077) != 0)
    return no_access(Code::Version, file, "others may read or write it; chmod 600 it");
  if (length < 0) return no_access(Code::Environment, file, std::strerror(errno));
  if (static_cast<std::size_t>(length) > kMostFileBytes)
    return no_access(Code::Version, file,
                     fmt::format("it is longer than {} bytes", kMostFileBytes));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string_view line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Endpoint out;
  boost::system::error_code wrong;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    const auto address = boost::asio::ip::make_address(std::string(host), wrong);
    const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    out.address = address.to_string();
    if (!wrong && failed == std::errc{} && end == port.data() + port.size() && !port.empty() &&
        address.is_v6() == bracketed)
      return out;
  }
  return Status{Code::BadInput,
                fmt::format("{} is no address of a coordinator; it takes a numeric address and a "
                            "port, for example 127.0.0.1:4711 or [::1]:4711.",
                            text)};
}

std::string Endpoint::text() const {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

bool Endpoint::loopback() const {
  boost::system::error_code wrong;
  const auto parsed = boost::asio::ip::make_address(address, wrong);
  return !wrong && parsed.is_loopback();
}

Result<Secret> secret_of(std::string_view text, std::string_view where) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  if (text.size() < kSecretBytes)
    return Status{Code::Version, fmt::format("The secret in {} is shorter than {} bytes; make one, "
                                             "for example with: openssl rand -hex 32.",
                                             where, kSecretBytes)};
  const auto bytes = std::as_bytes(std::span(text));
  return Secret(bytes.begin(), bytes.end());
}

Result<Secret> read_secret(const std::string& file) {
  const auto text = read_private(file);
  if (!text) return text.error();
  return secret_of(*text, file);
}

Secret random_secret() {
  std::array<std::byte, 32> raw{};
  fill_with_random(raw);
  Secret out;
  for (const std::byte b : raw)
    for (const unsigned digit :
         {std::to_integer<unsigned>(b) >> 4, std::to_integer<unsigned>(b) & 15})
      out.push_back(static_cast<std::byte>("0123456789abcdef"[digit]));
  return out;
}

Nonce random_nonce() {
  Nonce nonce{};
  fill_with_random(nonce);
  return nonce;
}

Result<void> PortFile::write(const std::string& file) const {
  std::string text = fmt::format("{}\naddress {}\n", kFormat, endpoint.text());
  if (secret)
    text += fmt::format(
        "secret {}\n",
        std::string_view(reinterpret_cast<const char*>(secret->data()), secret->size()));
  const std::string draft = fmt::format("{}.{}", file, ::getpid());
  ::unlink(draft.c_str());  // of a process of this number that was killed
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

Result<PortFile> PortFile::read(const std::string& file) {
  const auto text = read_private(file);
  if (!text) return text.error();
  std::string_view rest = *text;
  const Status other{Code::BadInput, fmt::format("{} is no port file of a coordinator of this "
                                                 "version ({}).",
                                                 file, kFormat)};
  if (line(rest) != kFormat) return other;
  std::string_view address = line(rest), secret = line(rest);
  if (!address.starts_with("address ")) return other;
  const auto endpoint = Endpoint::parse(address.substr(8));
  if (!endpoint) return other;
  PortFile out{*endpoint, std::nullopt};
  if (secret.empty()) return out;
  if (!secret.starts_with("secret ")) return other;
  auto known = secret_of(secret.substr(7), file);
  if (!known) return known.error();
  out.secret = *std::move(known);
  return out;
}

}  // namespace lockstep::coordinator
