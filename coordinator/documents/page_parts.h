// The files of coordinator/page, which the build puts into the library.
#pragma once

#include <string_view>

namespace lockstep::coordinator {

/// HTML with the comments <!--policy-->, <!--style-->, <!--data--> and <!--script--> in this order.
extern const std::string_view kPageFrame;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace lockstep::coordinator
