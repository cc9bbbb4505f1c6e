// The status page: one HTML document that contains a status document and uses no other resources. A
// running coordinator serves the page that `--report` writes to a file.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::coordinator {

/// The parts of a page besides its data: HTML with the comments <!--policy-->, <!--style-->,
/// <!--data--> and <!--script--> in this order, a style and a script.
struct PageParts {
  std::string_view frame, style, script;
};
/// The page with `json` in it as the text of the element with the id "document".
[[nodiscard]] std::string page_of(const PageParts& parts, std::string_view json, bool live);

/// The status page. `live`: the page follows /updates of its coordinator. The document is in the
/// page as data and cannot become markup.
[[nodiscard]] std::string page_with(std::string_view status_document, bool live);

/// The Content-Security-Policy of the page: only its own script and style, by digest.
[[nodiscard]] std::string page_policy(bool live);

}  // namespace lockstep::coordinator
