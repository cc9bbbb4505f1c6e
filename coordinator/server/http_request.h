// What a browser or a scraper asks for: the head of one HTTP/1.x request, read from bytes. One
// request a connection; what comes behind it is not looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::coordinator {

/// Longest head taken: request line and fields.
inline constexpr std::size_t kHttpHeadBytes = 8 * 1024;

struct HttpRequest {
  std::string method, target;
  std::string host;           // of the one Host field
  std::string authorization;  // empty: none
};

/// Why what came is no request that is answered: an HTTP status code and a sentence.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

/// Reads one head. It keeps at most kHttpHeadBytes.
class HttpReader {
 public:
  /// True if bytes that begin so can be HTTP and cannot be the coordinator's own protocol.
  [[nodiscard]] static bool begins(std::span<const std::byte> bytes);

  /// nullopt: it has not come whole. Not to be called again after another answer.
  [[nodiscard]] std::variant<std::optional<HttpRequest>, HttpRefusal> take(
      std::span<const std::byte> bytes);

 private:
  std::string head_;
};

}  // namespace lockstep::coordinator
