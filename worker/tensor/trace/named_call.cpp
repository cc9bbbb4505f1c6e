#include <fmt/format.h>

#include <lockstep/worker/tensor/trace/named_call.h>

namespace lockstep::worker {
namespace {

thread_local std::string_view call_under_way;  // empty: no call

}  // namespace

NamedCall::NamedCall(std::string_view name) : outermost_(call_under_way.empty()) {
  if (outermost_) call_under_way = name;
}

NamedCall::~NamedCall() {
  if (outermost_) call_under_way = {};
}

std::string NamedCall::said(std::string_view text) {
  const std::string name = fmt::format("{}: ", call_under_way);
  if (call_under_way.empty() || text.starts_with(name)) return std::string(text);
  return name + std::string(text);
}

}  // namespace lockstep::worker
