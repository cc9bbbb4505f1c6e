// Who may read the status page, what there is to read, and the head of an answer. Pure: no sockets.
// Read-only: GET and HEAD, exact names, and nothing that a request says is ever repeated.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <lockstep/coordinator/server/http_request.h>
#include <lockstep/coordinator/speech/session.h>

namespace lockstep::coordinator {

/// What can be asked for.
enum class Resource : std::uint8_t { Page, Status, Updates, Metrics, Events, Trace, Dump };

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string policy = "default-src 'none'; frame-ancestors 'none'";  // Content-Security-Policy
  bool stream = false;                                                // goes on after `body`
};

/// The password that shows the page to other users and other machines, under the name "lockstep"
/// (Basic authentication). Made from the secret and not
/// the secret itself: it goes over the network as it is, and who overhears it can look and no more.
[[nodiscard]] std::string page_password(const Secret& secret);

/// What keeps the page from those whom it does not concern.
struct HttpDoor {
  std::string listening;  // numeric address
  std::string password;
  bool same_user = false;  // the other end is a process of this user, or root's, on this machine
};

struct HttpWish {
  Resource resource = Resource::Page;
  bool head_only = false;
};
/// What is asked for, or the answer that refuses it. The Host must be a name or address that only
/// this machine gives out (against DNS rebinding); its port may be another, that of a tunnel.
[[nodiscard]] std::variant<HttpWish, HttpAnswer> admit(const HttpRequest& request,
                                                       const HttpDoor& door);
[[nodiscard]] HttpAnswer answer_of(const HttpRefusal& refusal);

/// Status line and fields, up to the empty line.
[[nodiscard]] std::string head_of(const HttpAnswer& answer);

}  // namespace lockstep::coordinator
