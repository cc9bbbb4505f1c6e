// Decisions written by hand, for tests that trace.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::test {

/// A dim of an input: a number, or a symbol with a hint and a lower bound.
struct Dim {
  Dim(std::int64_t size) : value(size) {}  // NOLINT: a number is one
  Dim(std::int64_t hint, std::int64_t lower, bool is_unbacked = false)
      : symbol(true), unbacked(is_unbacked), value(hint), min(lower) {}
  bool symbol = false, unbacked = false;
  std::int64_t value = 0, min = 0;
};
/// A symbol with this hint and a lower bound, 2 by default, as for sizes of which none below was
/// observed.
inline Dim dynamic(std::int64_t hint, std::int64_t min = 2) { return {hint, min}; }

/// Builds a decision source by source. Sources must be added in the order of their names.
class DecisionBuilder {
 public:
  DecisionBuilder& tensor(const std::string& name, DType dtype, const std::vector<Dim>& dims) {
    SourceDecision source;
    source.spec = {name, Kind::Tensor, dtype, static_cast<std::uint32_t>(dims.size())};
    for (std::size_t d = 0; d < dims.size(); ++d)
      source.dims.push_back(dim(name + ".size(" + std::to_string(d) + ")", dims[d]));
    decision_.sources.push_back(source);
    return *this;
  }
  DecisionBuilder& integer(const std::string& name, const Dim& value) {
    SourceDecision source;
    source.spec = {name, Kind::Int, DType::F32, 0};
    source.dims.push_back(dim(name, value));
    if (value.symbol) decision_.symbols.back().min.reset();
    decision_.sources.push_back(source);
    return *this;
  }
  DecisionBuilder& number(const std::string& name) {
    decision_.sources.push_back({{name, Kind::Float, DType::F32, 0}, {}});
    return *this;
  }
  DecisionBuilder& flag(const std::string& name, bool value) {
    decision_.sources.push_back(
        {{name, Kind::Bool, DType::F32, 0}, {dim(name, Dim(value ? 1 : 0))}});
    return *this;
  }
  [[nodiscard]] const Decision& get() const { return decision_; }

 private:
  DimDecision dim(const std::string& name, const Dim& d) {
    DimDecision out;
    if (!d.symbol) {
      out.value = d.value;
      return out;
    }
    out.is_symbol = true;
    out.symbol = static_cast<std::uint32_t>(decision_.symbols.size());
    SymbolDecision symbol;
    symbol.source = name;
    symbol.unbacked = d.unbacked;
    symbol.min = d.min;
    symbol.hint = d.value;
    decision_.symbols.push_back(symbol);
    return out;
  }
  Decision decision_;
};

inline TraceSetup setup(const Decision& decision, int group_size = 1, TraceHost* host = nullptr) {
  return {.frame = "step", .decision = decision, .group_size = group_size, .host = host};
}

}  // namespace lockstep::worker::test
