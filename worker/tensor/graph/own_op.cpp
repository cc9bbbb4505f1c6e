#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {
namespace {

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

Status refused(std::string words) { return {Code::TraceError, std::move(words)}; }

}  // namespace

shapes::Fingerprint OwnDefinition::fingerprint() const {
  if (stands_for) return *stands_for;
  return shapes::FingerprintBuilder()
      .add("lockstep.own_op/1")
      .add(name)
      .add(version)
      .add(host_text)
      .add(cuda_text)
      .add(std::int64_t{function != nullptr})
      .add(std::int64_t{claims.pure})
      .add(std::int64_t{claims.deterministic})
      .add(std::int64_t{claims.may_alias})
      .finish();
}

std::optional<std::string> OwnDefinition::flaw() const {
  if (name.empty() || !std::ranges::all_of(name, is_name_letter))
    return fmt::format("'{}' is no name of an op; take letters, digits, '_' and '.'", name);
  if (std::ranges::find(kOps, name, &OpRow::name) != kOps.end())
    return fmt::format("the name {} is taken by an op of lockstep; call it 'yours.{}'", name, name);
  if (!shape_rule) return fmt::format("{} has no shape rule; give it one", name);
  if (!reference) return fmt::format("{} has no reference; give it one", name);
  return std::nullopt;
}

std::string_view op_name(const Node& node) {
  return node.own ? std::string_view(node.own->name) : op_row(node.op).name;
}

bool must_keep(const Node& node) {
  return is_joint(node.op) || (node.own && !node.own->claims.pure) ||
         std::ranges::any_of(node.bodies, [](const auto& body) {
           return std::ranges::any_of(body->nodes, must_keep);
         });
}

Result<TensorMeta> own_result(const Node& node, std::span<const TensorMeta> inputs) {
  if (!node.own) return refused("a node of an own op has no definition");
  if (const auto flaw = node.own->flaw()) return refused(*flaw);
  if (node.text != node.own->name)
    return refused(fmt::format("{} is called {}", node.own->name, node.text));
  try {
    TensorMeta result = node.own->shape_rule(inputs);
    for (const shapes::Expr& size : result.sizes)
      if (size.constant().value_or(0) < 0)
        return refused(fmt::format("{}: the shape rule gives {}, and a size cannot be negative",
                                   node.text, meta_text(result)));
    return result;
  } catch (const shapes::OverflowError&) {
    throw;
  } catch (const std::exception& error) {
    std::vector<std::string> given;
    for (const TensorMeta& input : inputs) given.push_back(meta_text(input));
    return refused(
        fmt::format("{} does not take ({}): {}", node.text, fmt::join(given, ", "), error.what()));
  }
}

}  // namespace lockstep::worker
