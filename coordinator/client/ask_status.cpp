#include <memory>
#include <optional>

#include <fmt/format.h>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/coordinator/client/client.h>

namespace lockstep::coordinator {
namespace {

/// Size of the longest document accepted, in bytes.
constexpr std::size_t kMostBytes = 64 * 1024 * 1024;

}  // namespace

Result<std::string> ask_status(const Endpoint& coordinator, const Secret& secret, Duration patience,
                               StatusRequest what) {
  const SystemClock clock;
  const Instant until = clock.now() + patience;
  std::string document;
  std::optional<Status> failure;
  bool whole = false;
  std::unique_ptr<Client> client;
  client = std::make_unique<Client>(
      coordinator, secret,
      Client::Events{.established = [&] { client->send(what); },
                     .message =
                         [&](const Message& message) {
                           const auto* part = std::get_if<StatusPart>(&message);
                           if (part == nullptr || document.size() > kMostBytes) return;
                           document += part->text;
                           whole = part->last;
                         },
                     .ended = [&](const Status& why) { failure = why; }});
  while (!whole && !failure && clock.now() < until)
    client->run_for(std::min<Duration>(until - clock.now(), std::chrono::milliseconds(20)));
  if (whole) return document;
  if (failure) return *failure;
  return Status{Code::Stuck,
                fmt::format("The coordinator at {} did not answer within {:g} s; it may be "
                            "suspended, or something else listens there.",
                            coordinator.text(), std::chrono::duration<double>(patience).count())};
}

}  // namespace lockstep::coordinator
