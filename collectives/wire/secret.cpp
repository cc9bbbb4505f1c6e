#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMostFileBytes = 4096;

void fill_with_random(std::span<std::byte> bytes) {
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                   static_cast<int>(bytes.size())) != 1)
    std::abort();  // no source of randomness: nothing could be kept secret
}

Status no_access(Code code, const std::string& file, std::string_view why) {
  return {code, fmt::format("{} cannot be used: {}.", file, why)};
}

}  // namespace

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

Result<Secret> own_secret(const std::string& file) {
  auto known = read_secret(file);
  if (known || known.error().code != Code::Environment) return known;
  const Secret fresh = random_secret();
  const std::string_view text(reinterpret_cast<const char*>(fresh.data()), fresh.size());
  if (const auto fault = write_whole_file(file, text, {.mode = 0600, .keeps_first = true}))
    return no_access(Code::Environment, file, fault->reason());
  return read_secret(file);
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

}  // namespace lockstep::collectives
