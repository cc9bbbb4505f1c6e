#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <lockstep/collectives/wire/hmac.h>
#include <lockstep/coordinator/server/http_answer.h>

namespace lockstep::coordinator {
namespace {

namespace http = boost::beast::http;

constexpr std::pair<std::string_view, Resource> kResources[] = {
    {"/", Resource::Page},           {"/status.json", Resource::Status},
    {"/updates", Resource::Updates}, {"/metrics", Resource::Metrics},
    {"/events", Resource::Events},   {"/trace.json", Resource::Trace},
    {"/dump.json", Resource::Dump}};

std::string base64(std::string_view text) {
  std::string out((text.size() + 2) / 3 * 4 + 1, '\0');
  const int length = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

/// "localhost:4711" and "[::1]:4711" without the port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? std::string_view{} : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

/// True if the Host of a request may name this server. A page of another site whose name was
/// pointed at this machine (DNS rebinding) sends that name as its Host. An address cannot be
/// redirected like this.
bool own_name(std::string_view host, std::string_view listening) {
  const std::string name(without_port(host));
  if (name == "localhost" || name == listening) return true;
  boost::system::error_code ignored;
  const auto address = boost::asio::ip::make_address(name, ignored);
  if (ignored) return false;
  const auto at = boost::asio::ip::make_address(std::string(listening), ignored);
  return address.is_loopback() || (!ignored && at.is_unspecified());
}

bool knows(const HttpRequest& request, const HttpAccess& door) {
  if (door.same_user) return true;
  const std::string wanted = "Basic " + base64("lockstep:" + door.password);
  return !door.password.empty() && request.authorization.size() == wanted.size() &&
         collectives::same(std::as_bytes(std::span(request.authorization)),
                           std::as_bytes(std::span(wanted)));
}

HttpAnswer refused(int status, std::string message) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = std::move(message) + "\n";
  return answer;
}

}  // namespace

std::string page_password(const Secret& secret) {
  constexpr std::string_view kLabel = "lockstep status page";
  const collectives::Mac mac = collectives::hmac_sha256(secret, std::as_bytes(std::span(kLabel)));
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) out += fmt::format("{:02x}", static_cast<unsigned>(mac[i]));
  return out;
}

std::variant<AcceptedRequest, HttpAnswer> admit(const HttpRequest& request,
                                                const HttpAccess& door) {
  if (!own_name(request.host, door.listening))
    return refused(403,
                   "This page goes by localhost or by the address at which the coordinator "
                   "listens; it was asked for by another name.");
  if (!knows(request, door))
    return refused(401,
                   "Another user's coordinator, or another machine's: its page takes a name and "
                   "a password, which lockstep status --page prints there.");
  if (request.method != "GET" && request.method != "HEAD")
    return refused(405, "The page is for reading: GET or HEAD.");
  for (const auto& [target, resource] : kResources)
    if (request.target == target) return AcceptedRequest{resource, request.method == "HEAD"};
  return refused(404,
                 "There is /, /status.json, /dump.json, /metrics, /events, /updates and "
                 "/trace.json.");
}

HttpAnswer answer_of(const HttpRefusal& refusal) {
  return refused(refusal.status, refusal.message);
}

std::string head_of(const HttpAnswer& answer) {
  http::response<http::empty_body> head;
  head.version(11);
  head.result(static_cast<unsigned>(answer.status));
  head.set(http::field::content_type, answer.content_type);
  if (!answer.stream) head.set(http::field::content_length, std::to_string(answer.body.size()));
  head.set(http::field::connection, "close");
  head.set(http::field::cache_control, "no-store");
  head.set("Content-Security-Policy", answer.policy);
  head.set("Cross-Origin-Resource-Policy", "same-origin");
  head.set(http::field::x_frame_options, "DENY");
  head.set("Referrer-Policy", "no-referrer");
  head.set("X-Content-Type-Options", "nosniff");
  if (answer.status == 401)
    head.set(http::field::www_authenticate, "Basic realm=\"lockstep\", charset=\"UTF-8\"");
  if (answer.status == 405) head.set(http::field::allow, "GET, HEAD");
  std::ostringstream out;
  out << head.base();
  return out.str();
}

}  // namespace lockstep::coordinator
