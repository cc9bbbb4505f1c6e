// Parts of the report's page, which the build puts into the library.
#pragma once

#include <string_view>

namespace lockstep::worker::simulator {

/// As in lockstep::coordinator::PageParts.
extern const std::string_view kReportFrame;
extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace lockstep::worker::simulator
