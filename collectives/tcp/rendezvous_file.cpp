#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/collectives/tcp/rendezvous_file.h>

namespace lockstep::collectives {

Result<void> write_rendezvous(const std::string& file, const RendezvousWord& word) {
  const std::string_view secret(reinterpret_cast<const char*>(word.secret.data()),
                                word.secret.size());
  const std::string text = fmt::format("{}\n{}\n", word.at.text(), secret);
  const auto fault = write_whole_file(file, text, {.mode = 0600, .on_disk = false});
  if (!fault) return {};
  return environment_error(
      fmt::format("Rank 0 cannot say in {} where the ranks meet: {}.", file, fault->reason()));
}

Result<RendezvousWord> read_rendezvous(const std::string& file) {
  const auto text = read_private(file);
  if (!text) return text.error();
  const std::size_t line = std::min(text->find('\n'), text->size());
  const auto at = Endpoint::parse(std::string_view(*text).substr(0, line));
  auto secret = secret_of(std::string_view(*text).substr(std::min(line + 1, text->size())), file);
  if (at && secret) return RendezvousWord{*at, *std::move(secret)};
  return environment_error(fmt::format("{} does not say where the ranks meet", file));
}

}  // namespace lockstep::collectives
