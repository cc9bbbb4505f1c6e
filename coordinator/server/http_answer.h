// Access to the status page: who may read it, which resources exist, and the head of an answer.
// Pure: no sockets. Read-only: GET and HEAD, exact names; answers never repeat text of the request.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <lockstep/coordinator/messages/session.h>
#include <lockstep/coordinator/server/http_request.h>

namespace lockstep::coordinator {

/// The resources of the server.
enum class Resource : std::uint8_t { Page, Status, Updates, Metrics, Events, Trace, Dump };

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string policy = "default-src 'none'; frame-ancestors 'none'";  // Content-Security-Policy
  bool stream = false;                                                // more follows `body`
};

/// The password of the page for other users and other machines (Basic authentication, with the user
/// name "lockstep"). It is derived from the secret, because it is sent unencrypted: an eavesdropper
/// can read the page with it, but cannot join a job.
[[nodiscard]] std::string page_password(const Secret& secret);

/// Facts about one connection that decide who may read the page.
struct HttpAccess {
  std::string listening;  // numeric address
  std::string password;
  bool same_user = false;  // the other side is a process of this user or of root on this machine
};

struct AcceptedRequest {
  Resource resource = Resource::Page;
  bool head_only = false;
};
/// The requested resource, or an answer that refuses it. Against DNS rebinding, the Host must be
/// localhost, a loopback address or the address at which the server listens (any address if it
/// listens at all addresses). Its port may differ, because of tunnels.
[[nodiscard]] std::variant<AcceptedRequest, HttpAnswer> admit(const HttpRequest& request,
                                                              const HttpAccess& door);
[[nodiscard]] HttpAnswer answer_of(const HttpRefusal& refusal);

/// Status line and fields, up to the empty line.
[[nodiscard]] std::string head_of(const HttpAnswer& answer);

}  // namespace lockstep::coordinator
