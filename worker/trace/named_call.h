// In whose name a trace refuses: functions that are made of several ops speak for them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::worker {

/// A call of a function that is made of several ops, as long as this lives: what one of them
/// refuses is refused in the name of the outermost function, too. Of its thread.
class NamedCall {
 public:
  /// `name` is a literal.
  explicit NamedCall(std::string_view name);
  ~NamedCall();
  NamedCall(const NamedCall&) = delete;
  NamedCall& operator=(const NamedCall&) = delete;

  /// "what: words" as it is; in a call of another name "name: what: words".
  [[nodiscard]] static std::string said(std::string_view text);

 private:
  bool outermost_;
};

}  // namespace lockstep::worker
