#include <array>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/host_value.h>

namespace lockstep::worker {
namespace {

using Code = HostValue::Code;

constexpr std::array<std::string_view, kHostCodes> kNames{
    "input", "number", "-x", "!", "+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&", "|"};

double applied(Code code, double a, double b) {
  switch (code) {
    case Code::Neg:
      return -b;
    case Code::Not:
      return b == 0;
    case Code::Add:
      return a + b;
    case Code::Sub:
      return a - b;
    case Code::Mul:
      return a * b;
    case Code::Div:
      return a / b;
    case Code::Lt:
      return a < b;
    case Code::Le:
      return a <= b;
    case Code::Gt:
      return a > b;
    case Code::Ge:
      return a >= b;
    case Code::Eq:
      return a == b;
    case Code::Ne:
      return a != b;
    case Code::And:
      return a != 0 && b != 0;
    case Code::Or:
      return a != 0 || b != 0;
    case Code::Input:
    case Code::Number:
      break;
  }
  return 0;
}

}  // namespace

int operands(Code code) {
  if (code <= Code::Number) return 0;
  return code <= Code::Not ? 1 : 2;
}

std::string_view host_code_name(Code code) { return kNames[static_cast<std::size_t>(code)]; }

std::string HostValue::text() const {
  if (steps.size() == 1 && steps[0].code == Code::Input) return steps[0].source + ".item()";
  std::vector<std::string> stack;
  for (const Step& step : steps) {
    const int taken = operands(step.code);
    if (taken == 0) {
      stack.push_back(step.code == Code::Input ? step.source : fmt::format("{}", step.number));
    } else if (taken == 1) {
      stack.back() = (step.code == Code::Neg ? "-" : "!") + stack.back();
    } else {
      const std::string b = std::move(stack.back());
      stack.pop_back();
      stack.back() = fmt::format("({} {} {})", stack.back(), host_code_name(step.code), b);
    }
  }
  return stack.back();
}

std::optional<std::int64_t> HostValue::evaluate(const Scalars& scalar) const {
  if (steps.size() == 1) return scalar(steps[0].source);
  std::vector<double> stack;
  for (const Step& step : steps) {
    if (step.code == Code::Number) {
      stack.push_back(step.number);
    } else if (step.code == Code::Input) {
      const auto bits = scalar(step.source);
      if (!bits) return std::nullopt;
      stack.push_back(std::bit_cast<double>(*bits));
    } else {
      const double b = stack.back();
      if (operands(step.code) == 2) stack.pop_back();
      stack.back() = applied(step.code, stack.back(), b);
    }
  }
  return stack.back() != 0 ? 1 : 0;
}

bool HostValue::well_formed(const std::function<bool(std::string_view)>& is_scalar) const {
  int depth = 0;
  for (const Step& step : steps) {
    if (depth < operands(step.code)) return false;
    depth += 1 - operands(step.code);
    if (step.code == Code::Input && !is_scalar(step.source)) return false;
  }
  return depth == 1 && (steps.size() > 1 || steps[0].code == Code::Input);
}

}  // namespace lockstep::worker
