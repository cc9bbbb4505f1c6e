#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

#include <lockstep/coordinator/server/http_request.h>

namespace lockstep::coordinator {
namespace {

namespace http = boost::beast::http;

HttpRefusal too_long() {
  return {431, fmt::format("The head of a request has at most {} bytes.", kHttpHeadBytes)};
}

/// Requires that the parser has read a whole head.
std::variant<std::optional<HttpRequest>, HttpRefusal> request_of(
    const http::request_parser<http::empty_body>& parser) {
  const auto& head = parser.get();
  if (parser.chunked() || parser.content_length().value_or(0) > 0)
    return HttpRefusal{413, "A request has no body here."};
  if (head.count(http::field::host) != 1) return HttpRefusal{400, "A request has one Host field."};
  if (head.count(http::field::authorization) > 1)
    return HttpRefusal{400, "A request has at most one Authorization field."};
  return HttpRequest{std::string(head.method_string()), std::string(head.target()),
                     std::string(head[http::field::host]),
                     std::string(head[http::field::authorization])};
}

}  // namespace

/// Methods begin with a capital letter. The coordinator's own protocol begins with "LKSC", and no
/// accepted method begins with L.
bool HttpReader::begins(std::span<const std::byte> bytes) {
  if (bytes.empty()) return false;
  const auto first = static_cast<char>(bytes.front());
  return first >= 'A' && first <= 'Z' && first != 'L';
}

std::variant<std::optional<HttpRequest>, HttpRefusal> HttpReader::take(
    std::span<const std::byte> bytes) {
  const std::size_t room = kHttpHeadBytes + 1 - std::min(head_.size(), kHttpHeadBytes + 1);
  const std::size_t seen = head_.size();
  head_.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  // Searches from the place in the earlier bytes at which the end of the head may begin.
  const std::size_t end = head_.find("\r\n\r\n", seen < 3 ? 0 : seen - 3);
  if (end == std::string::npos) {
    if (head_.size() > kHttpHeadBytes) return too_long();
    return std::optional<HttpRequest>{};
  }
  if (end + 4 > kHttpHeadBytes) return too_long();
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kHttpHeadBytes);
  boost::system::error_code failure;
  parser.put(boost::asio::buffer(head_.data(), end + 4), failure);
  if (failure == http::error::bad_version)
    return HttpRefusal{505, "This is not a version of HTTP that is spoken here."};
  if (failure == http::error::header_limit) return too_long();
  if (failure && failure != http::error::need_more && failure != http::error::body_limit)
    return HttpRefusal{400, fmt::format("This is no HTTP request: {}.", failure.message())};
  if (!parser.is_header_done()) return HttpRefusal{400, "This is no HTTP request."};
  return request_of(parser);
}

}  // namespace lockstep::coordinator
