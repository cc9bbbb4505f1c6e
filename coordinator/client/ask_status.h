// Asks a coordinator for a document and waits for it: `lockstep status` and `lockstep dump`.
#pragma once

#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/coordinator/messages/message.h>
#include <lockstep/coordinator/messages/port_file.h>

namespace lockstep::coordinator {

/// The document as text; takes `patience` at most. Errors: Environment (no coordinator listens at
/// the address), Version (another secret or protocol), Stuck (no complete answer in time), RankLost
/// (the connection was closed).
[[nodiscard]] Result<std::string> ask_status(const Endpoint& coordinator, const Secret& secret,
                                             Duration patience, StatusRequest what = {});

}  // namespace lockstep::coordinator
