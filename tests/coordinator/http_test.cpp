// The status page over HTTP: what is read as a request, who is let in, what is answered; first
// without sockets, then by a coordinator.
#include "exposition_lint.h"
#include "running_server.h"
#include "watched_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/coordinator/documents/page.h>
#include <lockstep/coordinator/documents/page_parts.h>
#include <lockstep/coordinator/server/http_connection.h>

namespace lockstep::coordinator::http_test {
namespace {

using namespace std::chrono_literals;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string get(std::string_view target, std::string_view host = "localhost",
                std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", target, host, more);
}
std::string basic(const std::string& user_and_password) {
  std::string out(user_and_password.size() * 2 + 4, '\0');
  out.resize(static_cast<std::size_t>(
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                        reinterpret_cast<const unsigned char*>(user_and_password.data()),
                        static_cast<int>(user_and_password.size()))));
  return "Authorization: Basic " + out + "\r\n";
}

/// What is answered where all that is let in gets "content".
std::string answer_to(std::string_view request, const HttpAccess& door,
                      std::size_t step = 100'000) {
  HttpConnection connection;
  const Bytes bytes = bytes_of(request);
  for (std::size_t at = 0; at < bytes.size() && !connection.answered(); at += step)
    (void)connection.take(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)),
                          {[&] { return door; },
                           [](Resource) {
                             HttpAnswer answer;
                             answer.body = "content";
                             return answer;
                           }});
  std::string out;
  for (Bytes part = connection.more(); !part.empty(); part = connection.more())
    out += text_of(part);
  return out;
}
const HttpAccess kOpen{"127.0.0.1", "0123456789abcdef0123456789abcdef", true};
const HttpAccess kClosed{"127.0.0.1", "0123456789abcdef0123456789abcdef", false};

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

TEST(HttpRequest, WhateverIsCutWhereever_IsReadTheSame) {
  const std::string request = get("/status.json", "localhost:4711", "Accept: */*\r\n");
  const std::string whole = answer_to(request, kOpen);
  EXPECT_EQ(status_of(whole), 200);
  for (std::size_t step = 1; step < 8; ++step)
    EXPECT_EQ(answer_to(request, kOpen, step), whole) << step;
}

TEST(HttpRequest, WhatIsNoRequest_IsRefused) {
  const std::pair<std::string, int> cases[] = {
      {"GET\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde", 413},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 413},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(9000, 'x') + "\r\n\r\n", 431},
      {"GET /" + std::string(100'000, 'x'), 431},
      {std::string("GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", 37), 400}};
  for (const auto& [request, status] : cases)
    EXPECT_EQ(status_of(answer_to(request, kOpen)), status) << request.substr(0, 60);
}

TEST(HttpRequest, HeadThatDoesNotEnd_IsHeldToItsLimit) {
  HttpReader reader;
  std::size_t put = 0;
  for (const Bytes part = bytes_of(std::string(512, 'G')); put < 2 * kHttpHeadBytes;
       put += part.size())
    if (std::holds_alternative<HttpRefusal>(reader.take(part))) break;
  EXPECT_LE(put, kHttpHeadBytes);
}

TEST(HttpAnswer, OtherNames_AreTurnedAway) {
  for (const char* host :
       {"localhost", "localhost:80", "127.0.0.1:4711", "[::1]:4711", "127.0.0.5"})
    EXPECT_EQ(status_of(answer_to(get("/", host), kOpen)), 200) << host;
  for (const char* host : {"evil.example", "evil.example:4711", "localhost.evil.example",
                           "127.0.0.1.evil.example", "10.0.0.1:4711", "", "[::1", "@localhost"})
    EXPECT_EQ(status_of(answer_to(get("/", host), kOpen)), 403) << host;
  const HttpAccess outside{"10.0.0.1", "p", true}, anywhere{"0.0.0.0", "p", true};
  EXPECT_EQ(status_of(answer_to(get("/", "10.0.0.1:4711"), outside)), 200);
  EXPECT_EQ(status_of(answer_to(get("/", "10.0.0.2:4711"), outside)), 403);
  EXPECT_EQ(status_of(answer_to(get("/", "10.0.0.2:4711"), anywhere)), 200);
  EXPECT_EQ(status_of(answer_to(get("/", "evil.example"), anywhere)), 403);
}

TEST(HttpAnswer, OtherUsers_NeedThePassword) {
  EXPECT_EQ(status_of(answer_to(get("/"), kClosed)), 401);
  EXPECT_NE(answer_to(get("/"), kClosed).find("WWW-Authenticate: Basic"), std::string::npos);
  const auto with = [](const std::string& field) {
    return status_of(answer_to(get("/", "localhost", field), kClosed));
  };
  EXPECT_EQ(with(basic("lockstep:" + kClosed.password)), 200);
  EXPECT_EQ(with(basic("lockstep:" + kClosed.password.substr(1))), 401);
  EXPECT_EQ(with(basic("lockstep:")), 401);
  EXPECT_EQ(with("Authorization: Bearer " + kClosed.password + "\r\n"), 401);
  EXPECT_EQ(with(basic("lockstep:" + kClosed.password) + basic("lockstep:x")), 400);
  const HttpAccess without{"127.0.0.1", "", false};
  EXPECT_EQ(status_of(answer_to(get("/", "localhost", basic("lockstep:")), without)), 401);
}

TEST(HttpAnswer, PasswordOfThePage_IsNotTheSecret) {
  const Secret secret = test_secret();
  EXPECT_EQ(page_password(secret), page_password(secret));
  EXPECT_EQ(page_password(secret).size(), 32U);
  EXPECT_NE(page_password(secret), page_password(Secret(32, std::byte{'t'})));
}

TEST(HttpAnswer, OnlyReading_AndOnlyWhatThereIs) {
  for (const char* method :
       {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"})
    EXPECT_EQ(status_of(answer_to(fmt::format("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", method),
                                  kOpen)),
              405)
        << method;
  for (const char* target : {"/../etc/passwd", "/%2e%2e/etc/passwd", "//", "/status.json/",
                             "/status.json?x=1", "http://localhost/", "*", "/page/page.html"})
    EXPECT_EQ(status_of(answer_to(get(target), kOpen)), 404) << target;
  const std::string head = answer_to("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", kOpen);
  EXPECT_EQ(status_of(head), 200);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_NE(head.find("Content-Length: 7\r\n"), std::string::npos);
}

TEST(HttpAnswer, EveryAnswer_ForbidsStoringSniffingFramingAndScripts) {
  for (const std::string& answer : {answer_to(get("/"), kOpen), answer_to(get("/nothing"), kOpen),
                                    answer_to(get("/"), kClosed)})
    for (const char* field :
         {"Cache-Control: no-store", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
          "Content-Security-Policy: default-src 'none'", "Referrer-Policy: no-referrer",
          "Cross-Origin-Resource-Policy: same-origin", "Connection: close"})
      EXPECT_NE(answer.find(field), std::string::npos) << field << " in " << answer;
  EXPECT_EQ(answer_to(get("/", "localhost", "Origin: http://evil.example\r\n"), kOpen)
                .find("Access-Control"),
            std::string::npos);
}

TEST(HttpAnswer, SecondRequestOnOneConnection_IsNotLookedAt) {
  const std::string once = answer_to(get("/"), kOpen);
  EXPECT_EQ(answer_to(get("/") + get("/metrics"), kOpen), once);
}

TEST(HttpConnection, SlowReaderOfUpdates_GetsTheLatestAndNotAll) {
  HttpConnection connection;
  (void)connection.take(bytes_of(get("/updates")), {[] { return kOpen; },
                                                    [](Resource) {
                                                      HttpAnswer answer;
                                                      answer.stream = true;
                                                      answer.body = "data: 0\n\n";
                                                      return answer;
                                                    }});
  EXPECT_TRUE(text_of(connection.more()).ends_with("data: 0\n\n"));
  for (int i = 1; i < 100; ++i)
    connection.update(std::make_shared<const std::string>(fmt::format("data: {}\n\n", i)));
  EXPECT_EQ(text_of(connection.more()), "data: 99\n\n");
  EXPECT_TRUE(connection.more().empty());
  EXPECT_FALSE(connection.over());
}

TEST(Page, DataThatLooksLikeMarkup_StaysWithinItsElement) {
  const std::string page = page_with(R"({"host":"</script><script>alert(1)</script>"})", false);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find(R"({"host":"\u003c/script>\u003cscript>alert(1)\u003c/script>"})"),
            std::string::npos);
}

TEST(Page, Parts_HoldWhatTheyMust) {
  EXPECT_EQ(kPageScript.find("innerHTML"), std::string_view::npos) << "texts only, never markup";
  EXPECT_EQ(kPageScript.find("</script"), std::string_view::npos);
  EXPECT_EQ(kPageStyle.find("</style"), std::string_view::npos);
  for (const std::string_view part : {kPageFrame, kPageStyle, kPageScript})
    EXPECT_EQ(part.find("//www"), std::string_view::npos) << "nothing from outside";
}

std::string ask(const Endpoint& endpoint, std::string_view request) {
  const RawSocket socket(endpoint);
  if (!socket.connected() || !socket.write(bytes_of(request))) return {};
  return text_of(socket.read_to_end());
}

TEST(HttpServer, PageAndDocument_ComeWhole) {
  RunningServer server;
  const std::string page = ask(server.endpoint(), get("/"));
  EXPECT_EQ(status_of(page), 200);
  EXPECT_NE(page.find("<h1>lockstep</h1>"), std::string::npos);
  EXPECT_TRUE(page.ends_with("</html>\n"));
  const std::string status = ask(server.endpoint(), get("/status.json"));
  const auto document = nlohmann::json::parse(status.substr(status.find("\r\n\r\n")));
  EXPECT_EQ(document["format"], "lockstep.status/1");
  EXPECT_EQ(document["coordinator"]["listening"], server.endpoint().text());
}

TEST(HttpServer, DocumentsForMachines_AreWhatTheySayTheyAre) {
  RunningServer server;
  const RawSocket rank(server.endpoint());
  Session session(Session::Side::Client, test_secret(), collectives::random_nonce());
  ASSERT_TRUE(shake_hands(rank, session));
  ASSERT_TRUE(rank.write(session.seal(Join{{.job = "train", .size = 1, .host = "n0"}})));
  ASSERT_TRUE(rank.write(session.seal(SlotReport{.phase = Phase::Compiling, .event = "call 1"})));
  const auto body = [&](const char* target, const char* type) {
    const std::string answer = ask(server.endpoint(), get(target));
    EXPECT_EQ(status_of(answer), 200) << target;
    EXPECT_NE(answer.find(fmt::format("Content-Type: {}", type)), std::string::npos) << answer;
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  // What a rank says is answered to nobody: a document is asked for until it knows of it.
  const SystemClock clock;
  const auto body_with = [&](std::string_view word, const char* target, const char* type) {
    std::string text = body(target, type);
    for (const Instant until = clock.now() + 10s;
         text.find(word) == std::string::npos && clock.now() < until;)
      text = body(target, type);
    return text;
  };
  const auto dump =
      nlohmann::json::parse(body_with(R"("call 1")", "/dump.json", "application/json"));
  EXPECT_EQ(dump["jobs"][0]["ranks"][0]["event"], "call 1");
  const std::string metrics = body("/metrics", "text/plain; version=0.0.4");
  EXPECT_EQ(lint(metrics), std::vector<std::string>{});
  EXPECT_NE(metrics.find(R"(lockstep_ranks{job="train",state="compiling"} 1)"), std::string::npos);
  EXPECT_TRUE(
      nlohmann::json::parse(body("/trace.json", "application/json")).contains("traceEvents"));
  const std::string events = body_with("\n", "/events", "application/x-ndjson");
  const auto first = nlohmann::json::parse(events.substr(0, events.find('\n')));
  EXPECT_EQ(first["event"], "began");
  EXPECT_EQ(first["job"], "train");
}

TEST(HttpServer, RequestThatDrips_IsDroppedInTime) {
  ServerOptions options;
  options.handshake = 300ms;
  RunningServer server(options);
  const RawSocket drips(server.endpoint());
  const SystemClock clock;
  const Instant began = clock.now();
  bool open = true;
  const Bytes request = bytes_of(get("/", "localhost", "X: " + std::string(200, 'x') + "\r\n"));
  for (std::size_t i = 0; i < request.size() && open; ++i)
    open = drips.write(std::span(request).subspan(i, 1)) && !drips.closed_within(20ms);
  EXPECT_FALSE(open);
  EXPECT_LT(clock.now() - began, 4s) << "else it would have read to the end";
}

TEST(HttpServer, RebindingAndGarbage_AreRefusedAndItGoesOn) {
  RunningServer server;
  EXPECT_EQ(status_of(ask(server.endpoint(), get("/status.json", "evil.example"))), 403);
  EXPECT_TRUE(server.says("another name"));
  EXPECT_EQ(status_of(ask(server.endpoint(), "GARBAGE\r\n\r\n")), 400);
  EXPECT_EQ(status_of(ask(server.endpoint(), "GET /" + std::string(20'000, 'x'))), 431);
  EXPECT_EQ(status_of(ask(server.endpoint(), get("/"))), 200);
}

TEST(HttpServer, Updates_GoOnUntilTheReaderLeaves) {
  RunningServer server;
  const RawSocket reader(server.endpoint());
  ASSERT_TRUE(reader.write(bytes_of(get("/updates"))));
  std::string came;
  const SystemClock clock;
  const auto events = [&] {
    int found = 0;
    for (std::size_t at = came.find("data: {"); at != std::string::npos;
         at = came.find("data: {", at + 1))
      ++found;
    return found;
  };
  for (const Instant until = clock.now() + 10s; events() < 3 && clock.now() < until;)
    came += text_of(reader.read_some());
  EXPECT_GE(events(), 3);
  EXPECT_NE(came.find("Content-Type: text/event-stream"), std::string::npos);
}

TEST(HttpServer, MoreReadersThanThereIsRoomFor_AreToldSoAndRanksAreNotKeptOut) {
  RunningServer server;
  std::vector<RawSocket> readers;
  for (int i = 0; i < 48; ++i) {
    readers.emplace_back(server.endpoint());
    ASSERT_TRUE(readers.back().write(bytes_of(get("/updates"))));
    ASSERT_FALSE(readers.back().read_some().empty()) << i;
  }
  EXPECT_EQ(status_of(ask(server.endpoint(), get("/updates"))), 503);
  EXPECT_EQ(status_of(ask(server.endpoint(), get("/metrics"))), 200)
      << "who does not stay has room";
  EXPECT_TRUE(ask_status(server.endpoint(), test_secret(), 4s));
  readers.pop_back();
  const SystemClock clock;
  bool taken = false;
  for (const Instant until = clock.now() + 5s; !taken && clock.now() < until;) {
    readers.emplace_back(server.endpoint());
    ASSERT_TRUE(readers.back().write(bytes_of(get("/updates"))));
    taken = status_of(text_of(readers.back().read_some())) == 200;
  }
  EXPECT_TRUE(taken);
}

TEST(HttpServer, ProcessOfAnotherUser_NeedsThePassword) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED ALOUD: only root can become another user";
  RunningServer server;
  const auto as_another = [&](const std::string& request) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setuid(65534) != 0) ::_exit(1);
      ::_exit(status_of(ask(server.endpoint(), request)) / 100);
    }
    int ended = 0;
    ::waitpid(child, &ended, 0);
    return WEXITSTATUS(ended);
  };
  EXPECT_EQ(as_another(get("/status.json")), 4);
  EXPECT_TRUE(server.says("Another user's coordinator"));
  EXPECT_EQ(as_another(get("/status.json", "localhost",
                           basic("lockstep:" + page_password(test_secret())))),
            2);
}

}  // namespace
}  // namespace lockstep::coordinator::http_test
