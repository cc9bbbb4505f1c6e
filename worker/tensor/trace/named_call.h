// The name under which a trace refuses: a function made of several ops refuses in its own name.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::worker {

/// A call of a function made of several ops, while this lives: a refusal by one of the ops also
/// names the outermost function. Affects its thread only.
class NamedCall {
 public:
  /// `name` is a literal.
  explicit NamedCall(std::string_view name);
  ~NamedCall();
  NamedCall(const NamedCall&) = delete;
  NamedCall& operator=(const NamedCall&) = delete;

  /// Returns `text`, "what: words". Within a call of another name: "name: what: words".
  [[nodiscard]] static std::string said(std::string_view text);

 private:
  bool outermost_;
};

}  // namespace lockstep::worker
