#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/base/status.h>

namespace lockstep {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::AbsentRanks:
      return "ABSENT_RANKS";
    case Code::FrameMismatch:
      return "FRAME_MISMATCH";
    case Code::SourceMismatch:
      return "SOURCE_MISMATCH";
    case Code::KindMismatch:
      return "KIND_MISMATCH";
    case Code::DtypeMismatch:
      return "DTYPE_MISMATCH";
    case Code::NdimMismatch:
      return "NDIM_MISMATCH";
    case Code::ConstantMismatch:
      return "CONSTANT_MISMATCH";
    case Code::MarkConflict:
      return "MARK_CONFLICT";
    case Code::ConstraintViolation:
      return "CONSTRAINT_VIOLATION";
    case Code::BranchDivergence:
      return "BRANCH_DIVERGENCE";
    case Code::GraphDivergence:
      return "GRAPH_DIVERGENCE";
    case Code::ConfigMismatch:
      return "CONFIG_MISMATCH";
    case Code::TraceError:
      return "TRACE_ERROR";
    case Code::CompileError:
      return "COMPILE_ERROR";
    case Code::RuntimeAssert:
      return "RUNTIME_ASSERT";
    case Code::Gone:
      return "GONE";
    case Code::Stuck:
      return "STUCK";
    case Code::RankLost:
      return "RANK_LOST";
    case Code::BadInput:
      return "BAD_INPUT";
    case Code::Version:
      return "VERSION";
    case Code::Environment:
      return "ENVIRONMENT";
    case Code::Internal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

int exit_code(Code code) {
  switch (code) {
    case Code::AbsentRanks:
    case Code::FrameMismatch:
    case Code::SourceMismatch:
    case Code::KindMismatch:
    case Code::DtypeMismatch:
    case Code::NdimMismatch:
    case Code::ConstantMismatch:
    case Code::MarkConflict:
    case Code::ConstraintViolation:
    case Code::BranchDivergence:
    case Code::GraphDivergence:
    case Code::ConfigMismatch:
    case Code::TraceError:
    case Code::CompileError:
    case Code::RuntimeAssert:
    case Code::Gone:
      return 3;
    case Code::Stuck:
      return 4;
    case Code::RankLost:
      return 5;
    case Code::BadInput:
      return 2;
    case Code::Version:
      return 6;
    case Code::Environment:
    case Code::Internal:
      return 7;
  }
  return 7;
}

std::string Status::text() const {
  std::string out = fmt::format("{}: {}", code_name(code), message);
  // A value that all ranks have is not repeated if the message contains it.
  const bool said = groups.size() == 1 && message.find(groups[0].value) != std::string::npos;
  if (groups.empty() || said) return out;
  out += " [";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    out += fmt::format("{}{}: {}", i ? "; " : "", groups[i].ranks.phrase(), groups[i].value);
  }
  return out + "]";
}

Status bad_input(std::string message, std::string source) {
  return {Code::BadInput, std::move(message), std::move(source)};
}
Status environment_error(std::string message, std::string source) {
  return {Code::Environment, std::move(message), std::move(source)};
}
Status internal_error(std::string message, std::string source) {
  return {Code::Internal, std::move(message), std::move(source)};
}

void throw_exception_from_error(const Status& status, const boost::source_location& where) {
  std::fprintf(stderr, "lockstep: unexamined failure at %s:%u: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), status.text().c_str());
  std::abort();
}

}  // namespace lockstep
