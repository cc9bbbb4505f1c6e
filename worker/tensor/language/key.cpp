#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/philox.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/key.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

std::int64_t child(std::int64_t key, std::int64_t number, RandomStream stream) {
  return philox(key, number, static_cast<std::int64_t>(stream));
}

/// Compares `number` between ranks in the run. Before the run a rank does not know what its peers
/// trace. Uses the greatest and the least number, so that all ranks get the same result.
void compare_in_the_run(const Tensor& number, std::string message, const Line& where) {
  const Tensor pair =
      cat({reshape(number, {1}, where), reshape(bitwise_not(number, where), {1}, where)}, 0, where);
  const Tensor greatest = all_reduce(pair, collectives::Reduce::Max, {}, where);
  const Tensor least = bitwise_not(slice(greatest, 0, 1, 1, where), where);
  const Tensor same =
      TensorOperand(slice(greatest, 0, 0, 1, where), where) == TensorOperand(least, where);
  check(item_bool(reshape(same, {}, where), where), std::move(message), where);
}

}  // namespace

RankKey::RankKey(Tensor tensor, Line where) : tensor_(std::move(tensor)) {
  if (!tensor_.traced() || tensor_.dtype(where) != DType::I64 || tensor_.ndim(where) != 0)
    refuse(where, "RankKey", "takes a 0-d i64 tensor of the frame, or a number");
}

std::int64_t RankKey::value(Line where) const {
  if (!traced()) return number_;
  tensor_.trace()->need_open("a key", where);
  throw shapes::DataDependentError(fmt::format(
      "{}: value() of a key in the traced function, where it is known only when the graph runs; "
      "draw by the key itself, or return it and read it in what the call gives",
      tensor_.trace()->here(where).text()));
}

Array RankKey::array() const {
  Array out(DType::I64, {});
  *out.data_as<std::int64_t>() = number_;
  return out;
}

std::vector<RankKey> RankKey::split(std::int64_t n, Line where) const {
  if (n < 0) refuse(where, "split", "there is no negative number of keys");
  std::vector<RankKey> keys;
  for (std::int64_t i = 0; i < n; ++i)
    if (traced())
      keys.emplace_back(
          random_bits(*this, scalar(*tensor_.trace(), i, where), RandomStream::Split, where),
          where);
    else
      keys.emplace_back(child(number_, i, RandomStream::Split));
  return keys;
}

RankKey RankKey::fold_in(const IntOperand& n) const {
  if (traced()) return fold_in(scalar(*tensor_.trace(), n.value, n.where), n.where);
  const auto number = n.value.expr().constant();
  if (n.value.trace() || !number)
    refuse(n.where, "fold_in",
           "the key is a constant of the traced function; pass it to the frame as an input");
  return RankKey(child(number_, *number, RandomStream::FoldIn));
}

RankKey RankKey::fold_in(const Tensor& n, Line where) const {
  if (!traced())
    refuse(where, "fold_in",
           "the key is a constant of the traced function; pass it to the frame as an input");
  (void)trace_of("fold_in", std::vector{tensor_, n}, where);
  if (n.dtype(where) != DType::I64 || n.ndim(where) != 0)
    refuse(where, "fold_in", "takes a 0-d i64 tensor, or an integer");
  return RankKey(random_bits(*this, n, RandomStream::FoldIn, where), where);
}

std::vector<Key> Key::split(std::int64_t n, Line where) const {
  std::vector<Key> keys;
  for (const RankKey& key : key_.split(n, where))
    keys.push_back(key.traced() ? Key(key.tensor(), where) : Key(key.value(where)));
  return keys;
}

Key Key::fold_in(const IntOperand& n) const {
  const RankKey key = key_.fold_in(n);
  if (!key.traced()) return Key(key.value(n.where));
  const std::shared_ptr<Trace> trace = key.tensor().trace();
  const shapes::Expr known = trace->env().simplify(n.value.expr());
  if (known.has_unbacked())
    refuse(n.where, "fold_in",
           "the number is known only when the graph runs, where ranks may have different ones; "
           "fold in the tensor that it comes from, which gives a RankKey");
  const Key out(key.tensor(), n.where);
  // A plain number is part of the graph, so the comparison of graphs covers it.
  if (trace->peers_may_differ())
    compare_in_the_run(scalar(*trace, n.value, n.where),
                       "a Key is folded with the same number on all ranks, and one has another",
                       n.where);
  else if (n.value.trace() && !known.constant())
    trace->need_uniform({known, {}, std::string(kKeyFold), trace->here(n.where)});
  return out;
}

Key key_input(Trace& trace, std::size_t source) {
  const Tensor key = trace.tensor_input(source);
  const shapes::Location here{fmt::format("{}{}", kKeyInput, trace.node(key.node()).text), 0};
  if (trace.peers_may_differ()) {
    trace.set_line(here);
    compare_in_the_run(key, "a Key is the same on all ranks, and one has another", {});
    trace.set_line(std::nullopt);
  } else if (const auto known = trace.host_value(key)) {
    trace.need_uniform({known->expr(), {}, "Key", here});
  }
  return Key(key);
}

Tensor random_bits(const RankKey& key, const Tensor& counter, RandomStream stream, Line where) {
  const std::shared_ptr<Trace> trace = key.tensor().trace();
  const Tensor which = scalar(*trace, static_cast<std::int64_t>(stream), where);
  return emit(Op::Philox, broadcast_together("philox", {key.tensor(), counter, which}, where), {},
              where);
}

}  // namespace lockstep::worker
