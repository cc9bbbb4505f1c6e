// The head of one HTTP/1.x request, read from bytes. A connection takes one request; bytes after
// the head are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::coordinator {

/// Size in bytes of the longest head accepted: request line and fields.
inline constexpr std::size_t kHttpHeadBytes = 8 * 1024;

struct HttpRequest {
  std::string method, target;
  std::string host;           // value of the only Host field
  std::string authorization;  // empty: none
};

/// The answer to bytes that are not an acceptable request: an HTTP status code and a sentence.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

/// Reads one head. Keeps at most kHttpHeadBytes.
class HttpReader {
 public:
  /// True if `bytes`, the first of a connection, can be HTTP and cannot be the coordinator's own
  /// protocol.
  [[nodiscard]] static bool begins(std::span<const std::byte> bytes);

  /// nullopt: the head is not complete yet. Requires that every earlier call returned nullopt.
  [[nodiscard]] std::variant<std::optional<HttpRequest>, HttpRefusal> take(
      std::span<const std::byte> bytes);

 private:
  std::string head_;
};

}  // namespace lockstep::coordinator
