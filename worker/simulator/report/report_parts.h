// The parts of the report's page, as the build put them into the library.
#pragma once

#include <string_view>

namespace lockstep::worker::simulator {

/// As lockstep::coordinator::PageParts.
extern const std::string_view kReportFrame;
extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace lockstep::worker::simulator
