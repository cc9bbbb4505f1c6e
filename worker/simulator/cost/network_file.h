// Calibrated networks on disk: one JSON file each, NAME.json in a folder of the cache directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// 1 to 64 letters, digits, dots, dashes and underscores, no dot in front.
[[nodiscard]] bool network_name_fits(std::string_view name);

/// The file's text (format "lockstep.network/1", one line).
[[nodiscard]] std::string network_text(const NetworkModel& network);

/// nullopt: there is none of that name. Errors: BadInput (a file that cannot be read or is no such
/// document, with its path and the JSON path).
[[nodiscard]] Result<std::optional<NetworkModel>> load_network(std::string_view name,
                                                               const std::string& folder);

}  // namespace lockstep::worker::simulator
