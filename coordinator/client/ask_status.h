// `lockstep status` and `lockstep dump`: a document of a coordinator, asked for and waited for.
#pragma once

#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/coordinator/speech/message.h>
#include <lockstep/coordinator/speech/port_file.h>

namespace lockstep::coordinator {

/// Never takes longer than `patience`. Errors: Environment (nobody listens there), Version (the
/// secret is another, or the protocol), Stuck (no whole answer in time), RankLost (it broke off).
[[nodiscard]] Result<std::string> ask_status(const Endpoint& coordinator, const Secret& secret,
                                             Duration patience, StatusRequest what = {});

}  // namespace lockstep::coordinator
