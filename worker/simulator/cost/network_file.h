// Calibrated networks on disk: one sealed file each, NAME.network, in a folder of the cache
// directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// True for 1 to 64 letters, digits, dots, dashes and underscores, not starting with a dot.
[[nodiscard]] bool network_name_fits(std::string_view name);

/// Returns the path of the file of that name.
[[nodiscard]] std::string network_file(std::string_view name, const std::string& folder);
/// Returns the file's content, without the network's name.
[[nodiscard]] Bytes network_bytes(const NetworkModel& network);

/// Returns the network of this name; nullopt if there is none. Errors: BadInput, with the path (a
/// file that cannot be read, was altered or has another version).
[[nodiscard]] Result<std::optional<NetworkModel>> load_network(std::string_view name,
                                                               const std::string& folder);

}  // namespace lockstep::worker::simulator
