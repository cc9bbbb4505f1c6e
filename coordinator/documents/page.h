// The status page: one HTML document without outside resources, for a status document. The same for
// a running coordinator and for a file.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::coordinator {

/// What a page is made of besides its data: HTML with the comments <!--policy-->, <!--style-->,
/// <!--data--> and <!--script--> in this order, a style and a script.
struct PageParts {
  std::string_view frame, style, script;
};
/// The page with `json` in it as the text of the element with the id "document".
[[nodiscard]] std::string page_of(const PageParts& parts, std::string_view json, bool live);

/// `live`: it follows /updates of the coordinator that it came from. The document is within it as
/// data; nothing of it can become markup.
[[nodiscard]] std::string page_with(std::string_view status_document, bool live);

/// Its Content-Security-Policy: the script and the style that are in it, by digest, and no other.
[[nodiscard]] std::string page_policy(bool live);

}  // namespace lockstep::coordinator
