#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/rendezvous_file.h>

namespace lockstep::collectives {

Result<void> write_rendezvous(const std::string& file, const RendezvousWord& word) {
  const std::string_view secret(reinterpret_cast<const char*>(word.secret.data()),
                                word.secret.size());
  const std::string text = fmt::format("{}\n{}\n", word.at.text(), secret);
  const std::string draft = fmt::format("{}.{}", file, ::getpid());
  ::unlink(draft.c_str());  // of a process of this number that was killed
  const int out = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool whole = out >= 0 && ::fchmod(out, 0600) == 0 &&
                     ::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     ::rename(draft.c_str(), file.c_str()) == 0;
  const int why = errno;
  if (out >= 0) ::close(out);
  if (whole) return {};
  ::unlink(draft.c_str());
  return Status{
      Code::Environment,
      fmt::format("Rank 0 cannot say in {} where the ranks meet: {}.", file, std::strerror(why)),
      "",
      {}};
}

Result<RendezvousWord> read_rendezvous(const std::string& file) {
  const auto text = read_private(file);
  if (!text) return text.error();
  const std::size_t line = std::min(text->find('\n'), text->size());
  const auto at = Endpoint::parse(std::string_view(*text).substr(0, line));
  auto secret = secret_of(std::string_view(*text).substr(std::min(line + 1, text->size())), file);
  if (at && secret) return RendezvousWord{*at, *std::move(secret)};
  return Status{
      Code::Environment, fmt::format("{} does not say where the ranks meet", file), "", {}};
}

}  // namespace lockstep::collectives
