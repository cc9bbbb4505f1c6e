#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/compile/run/own_call.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

Status own_failure(const Node& node, std::string_view words) {
  return {
      Code::RuntimeAssert,
      fmt::format("{} {} at {} {}", node.op == Op::HostCall ? "host_call" : "op", node.own->name,
                  node.where.file.empty() ? std::string("the graph") : node.where.text(), words)};
}

/// Runs the user's code; an exception becomes the node's failure.
template <class Call>
Result<void> guarded(const Node& node, const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return own_failure(node, fmt::format("threw: {}", error.what()));
  } catch (...) {
    return own_failure(node, "threw something that is not a std::exception");
  }
  return {};
}

std::string array_text(const Array& array) {
  return fmt::format("{}[{}]", dtype_name(array.dtype()), fmt::join(array.sizes(), ", "));
}

bool shares_memory(const Array& a, const Array& b) {
  const auto* from = static_cast<const std::byte*>(a.data());
  const auto* other = static_cast<const std::byte*>(b.data());
  return from < other + b.bytes() && other < from + a.bytes();
}

}  // namespace

Result<void> call_reference(const Node& node, std::span<const Array> inputs, Array& result) {
  Array given = result;
  if (auto done = guarded(node, [&] { node.own->reference(inputs, given); }); !done) return done;
  if (!given || given.dtype() != result.dtype() || given.sizes() != result.sizes())
    return own_failure(
        node, fmt::format("gave {}, but its shape rule says {}",
                          given ? array_text(given) : std::string("nothing"), array_text(result)));
  if (std::as_const(given).data() == std::as_const(result).data()) return {};
  for (std::size_t k = 0; k < inputs.size() && !node.own->claims.may_alias; ++k)
    if (shares_memory(given, inputs[k]))
      return own_failure(node, fmt::format("gave the memory of its input {} as its result; write "
                                           "to the result, or claim may_alias",
                                           k));
  if (result.bytes() > 0) std::memmove(result.data(), std::as_const(given).data(), result.bytes());
  return {};
}

Result<void> call_function(const Node& node, std::span<const Array> inputs, Array& result) {
  if (node.own->function == nullptr) return call_reference(node, inputs, result);
  std::vector<const void*> elements;
  std::vector<std::int64_t> sizes;
  for (const Array& input : inputs) {
    elements.push_back(input.data());
    sizes.insert(sizes.end(), input.sizes().begin(), input.sizes().end());
  }
  sizes.insert(sizes.end(), result.sizes().begin(), result.sizes().end());
  return guarded(node, [&] { node.own->function(elements.data(), result.data(), sizes.data()); });
}

}  // namespace lockstep::worker
