#include <utility>

#include "handle.h"

namespace lockstep::capi {
namespace {

/// Report of this thread's last error.
std::unique_ptr<lockstep_report>& last_error() {
  thread_local std::unique_ptr<lockstep_report> last;
  return last;
}

}  // namespace

static_assert(LOCKSTEP_INTERNAL == static_cast<int>(Code::Internal) + 1);
static_assert(LOCKSTEP_STUCK == static_cast<int>(Code::Stuck) + 1);

int code_number(Code code) { return static_cast<int>(code) + 1; }

std::optional<Code> code_of(int number) {
  if (number <= LOCKSTEP_OK || number > LOCKSTEP_INTERNAL) return std::nullopt;
  return static_cast<Code>(number - 1);
}

int fail(Status status) noexcept {
  const int number = code_number(status.code);
  try {
    last_error() = std::make_unique<lockstep_report>(std::move(status));
  } catch (...) {
    last_error().reset();  // no memory for a report: the caller gets only the number
  }
  return number;
}

}  // namespace lockstep::capi

using lockstep::capi::code_number;
using lockstep::capi::code_of;

lockstep_report::lockstep_report(lockstep::Status what)
    : status(std::move(what)), text(status.text()) {
  for (const lockstep::RankValue& row : status.groups) ranks.push_back(row.ranks.text());
}

extern "C" {

int lockstep_abi(void) { return LOCKSTEP_ABI; }

const char* lockstep_version(void) { return LOCKSTEP_VERSION_TEXT; }

const char* lockstep_code_name(int code) {
  if (code == LOCKSTEP_OK) return "OK";
  const auto known = code_of(code);
  // The names are literals, so they end in a zero.
  return known ? lockstep::code_name(*known).data() : "(no such code)";
}

int lockstep_exit_code(int code) {
  if (code == LOCKSTEP_OK) return 0;
  return lockstep::exit_code(code_of(code).value_or(lockstep::Code::Internal));
}

const lockstep_report* lockstep_last_error(void) { return lockstep::capi::last_error().get(); }

int lockstep_report_code(const lockstep_report* report) {
  return report == nullptr ? static_cast<int>(LOCKSTEP_OK) : code_number(report->status.code);
}

const char* lockstep_report_message(const lockstep_report* report) {
  return report == nullptr ? "" : report->status.message.c_str();
}

const char* lockstep_report_text(const lockstep_report* report) {
  return report == nullptr ? "" : report->text.c_str();
}

const char* lockstep_report_source(const lockstep_report* report) {
  return report == nullptr ? "" : report->status.source.c_str();
}

size_t lockstep_report_rows(const lockstep_report* report) {
  return report == nullptr ? 0 : report->ranks.size();
}

const char* lockstep_report_ranks(const lockstep_report* report, size_t row) {
  return row < lockstep_report_rows(report) ? report->ranks[row].c_str() : "";
}

const char* lockstep_report_value(const lockstep_report* report, size_t row) {
  return row < lockstep_report_rows(report) ? report->status.groups[row].value.c_str() : "";
}

}  // extern "C"
