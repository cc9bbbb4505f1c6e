#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <lockstep/coordinator/documents/page.h>
#include <lockstep/coordinator/documents/page_parts.h>

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

/// Appends JSON with each "<" escaped, so that no text can end the element around it.
void append_data(std::string& out, std::string_view json) {
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
}

/// Removes the text up to and including `mark` from `rest`; returns the part before `mark`.
std::string_view up_to(std::string_view& rest, std::string_view mark) {
  const std::size_t at = rest.find(mark);
  const std::string_view out = rest.substr(0, at);
  rest.remove_prefix(at + mark.size());
  return out;
}

std::string policy_of(const PageParts& parts, bool live) {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src {}; img-src data:; base-uri "
      "'none'; "
      "form-action 'none'",
      digest_source(parts.script), digest_source(parts.style), live ? "'self'" : "'none'");
}

PageParts status_parts() { return {kPageFrame, kPageStyle, kPageScript}; }

}  // namespace

std::string page_policy(bool live) { return policy_of(status_parts(), live); }

std::string page_with(std::string_view status_document, bool live) {
  return page_of(status_parts(), status_document, live);
}

std::string page_of(const PageParts& parts, std::string_view json, bool live) {
  std::string_view rest = parts.frame;
  std::string out(up_to(rest, "<!--policy-->"));
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">",
                     policy_of(parts, live));
  out += up_to(rest, "<!--style-->");
  out += fmt::format("<style>{}</style>", parts.style);
  out += up_to(rest, "<!--data-->");
  out += fmt::format("<script type=\"application/json\" id=\"document\" data-live=\"{}\">", live);
  append_data(out, json);
  out += "</script>";
  out += up_to(rest, "<!--script-->");
  out += fmt::format("<script>{}</script>", parts.script);
  out += rest;
  return out;
}

}  // namespace lockstep::coordinator
