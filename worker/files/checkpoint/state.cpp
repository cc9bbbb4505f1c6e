#include <bit>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker {
namespace {

Status bad_state(const std::string& name, const std::string& what) {
  return bad_input(fmt::format("{} of the state {}.", quoted_name(name), what), name);
}

}  // namespace

Sharded sharded(Tensor& tensor, std::int64_t dim, std::int64_t first, std::int64_t total) {
  Sharded out{tensor, {}, {}};
  if (tensor.empty() || tensor.traced()) return out;
  out.global = tensor.array().sizes();
  out.start.resize(out.global.size());
  if (dim < 0 || dim >= static_cast<std::int64_t>(out.global.size())) return {tensor, {}, {-1}};
  out.start[static_cast<std::size_t>(dim)] = first;
  out.global[static_cast<std::size_t>(dim)] = total;
  return out;
}

void StateLeaves::add(ValueKind kind, std::string text, bool per_rank,
                      std::function<ValueSetter(const std::string&)> read) {
  values_.push_back({{path_.text(), kind, std::move(text), per_rank}, std::move(read)});
}

Result<void> StateLeaves::check() const {
  std::set<std::string_view> names;
  const auto add = [&](const std::string& name) {
    return !name.empty() && names.insert(name).second;
  };
  for (const StateTensor& tensor : tensors_)
    if (!add(tensor.name)) return bad_state(tensor.name, "is a name that is empty or there twice");
  for (const StateValue& value : values_)
    if (!add(value.value.name))
      return bad_state(value.value.name, "is a name that is empty or there twice");
  return {};
}

Result<std::vector<Piece>> pieces_of(const StateLeaves& leaves) {
  if (auto named = leaves.check(); !named) return named.error();
  std::vector<Piece> out;
  for (const StateTensor& tensor : leaves.tensors()) {
    if (tensor.tensor->traced())
      return bad_state(tensor.name, "is a tensor of a trace; save what a call has returned");
    if (tensor.tensor->empty()) return bad_state(tensor.name, "is a tensor without elements");
    const Array& array = tensor.tensor->array();
    Piece piece{tensor.name, array.dtype(), {}, {}};
    try {
      piece.box = Box::whole(array.sizes());
    } catch (const std::runtime_error& error) {  // the array's device has failed
      return environment_error(error.what(), tensor.name);
    }
    piece.global = tensor.global.value_or(array.sizes());
    if (tensor.start) piece.box.start = *tensor.start;
    if (!stored_bytes(piece.dtype, piece.global) || !lies_within(piece.box, piece.global))
      return bad_state(tensor.name,
                       fmt::format("is to be the part {} of a tensor of sizes [{}]: its own sizes "
                                   "are [{}]",
                                   box_text(piece.box), fmt::join(piece.global, ", "),
                                   fmt::join(array.sizes(), ", ")));
    out.push_back(std::move(piece));
  }
  return out;
}

std::string float_text(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

std::optional<double> float_in(const std::string& text) {
  const auto bits = number_in<std::uint64_t>(text, 16);
  if (!bits || text.size() != 16) return std::nullopt;
  return std::bit_cast<double>(*bits);
}

std::optional<std::int64_t> int_in(const std::string& text) {
  return number_in<std::int64_t>(text);
}

}  // namespace lockstep::worker
