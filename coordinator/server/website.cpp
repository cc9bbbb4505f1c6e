#include <utility>

#include <lockstep/coordinator/documents/dump_document.h>
#include <lockstep/coordinator/documents/page.h>
#include <lockstep/coordinator/documents/trace_document.h>
#include <lockstep/coordinator/server/website.h>

namespace lockstep::coordinator {
namespace {

constexpr const char* kJson = "application/json";

}  // namespace

HttpAnswer unavailable(std::string message) {
  HttpAnswer answer;
  answer.status = 503;
  answer.body = std::move(message) + "\n";
  return answer;
}

HttpAnswer website(Resource resource, const ServerView& sight) {
  HttpAnswer answer;
  const auto status = [&](Detail detail) {
    return status_document(sight.service, sight.about, sight.now, detail);
  };
  switch (resource) {
    case Resource::Page:
      answer.content_type = "text/html; charset=utf-8";
      answer.body = page_with(status(Detail::Brief), true);
      answer.policy = page_policy(true) + "; frame-ancestors 'none'";
      break;
    case Resource::Status:
      answer.content_type = kJson;
      answer.body = status(Detail::Full);
      break;
    case Resource::Updates:
      answer.content_type = "text/event-stream";
      answer.stream = true;
      answer.body = "data: " + status(Detail::Brief) + "\n\n";
      break;
    case Resource::Metrics:
      answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
      answer.body = metrics_text(sight.service, sight.event_log, sight.rejected, sight.about,
                                 sight.now, sight.wall);
      break;
    case Resource::Events:
      answer.content_type = "application/x-ndjson";
      for (const std::string& line : sight.event_log.lines()) answer.body += line;
      break;
    case Resource::Trace:
      answer.content_type = kJson;
      answer.body = trace_document(sight.service, sight.about.began, sight.now);
      break;
    case Resource::Dump:
      answer.content_type = kJson;
      answer.body = dump_document(sight.service, sight.now);
      break;
  }
  return answer;
}

}  // namespace lockstep::coordinator
