#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <lockstep/coordinator/page.h>
#include <lockstep/coordinator/page_parts.h>

namespace lockstep::coordinator {
namespace {

/// "'sha256-…'"
std::string digest_source(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  unsigned length = digest.size();
  ::EVP_Digest(text.data(), text.size(), digest.data(), &length, ::EVP_sha256(), nullptr);
  std::array<unsigned char, 48> coded{};
  ::EVP_EncodeBlock(coded.data(), digest.data(), static_cast<int>(digest.size()));
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(coded.data()));
}

/// JSON in which no "<" is left, so that nothing ends the element that holds it.
void append_data(std::string& out, std::string_view json) {
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
}

/// What stands before `mark` in `rest`, which goes on behind it.
std::string_view up_to(std::string_view& rest, std::string_view mark) {
  const std::size_t at = rest.find(mark);
  const std::string_view out = rest.substr(0, at);
  rest.remove_prefix(at + mark.size());
  return out;
}

}  // namespace

std::string page_policy(bool live) {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src {}; img-src data:; base-uri "
      "'none'; "
      "form-action 'none'",
      digest_source(kPageScript), digest_source(kPageStyle), live ? "'self'" : "'none'");
}

std::string page_with(std::string_view status_document, bool live) {
  std::string_view rest = kPageFrame;
  std::string out(up_to(rest, "<!--policy-->"));
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">",
                     page_policy(live));
  out += up_to(rest, "<!--style-->");
  out += fmt::format("<style>{}</style>", kPageStyle);
  out += up_to(rest, "<!--data-->");
  out += fmt::format("<script type=\"application/json\" id=\"document\" data-live=\"{}\">", live);
  append_data(out, status_document);
  out += "</script>";
  out += up_to(rest, "<!--script-->");
  out += fmt::format("<script>{}</script>", kPageScript);
  out += rest;
  return out;
}

}  // namespace lockstep::coordinator
