#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/jagged.h>
#include <lockstep/worker/tensor/jagged/lengths.h>
#include <lockstep/worker/tensor/language/elementwise_ops.h>
#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker {
namespace {

void need_rows(std::string_view what, const Tensor& values, const Line& where) {
  if (values.ndim(where) == 0) refuse(where, what, "values of 0 dims have no rows");
}

}  // namespace

Tensor offsets_of(const Tensor& lengths, Line where) {
  return pad(cumsum(wide_lengths("offsets_of", lengths, 1, where), where), 0, 1, 0, where);
}

Tensor lengths_of(const Tensor& offsets, Line where) {
  const Tensor edges = wide_lengths("lengths_of", offsets, 1, where);
  const SymInt segments = edges.size(0, where) - 1;
  check(segments >= 0, "lengths_of needs at least one offset", where);
  const Tensor first = slice(edges, 0, 0, 1, where);
  const Tensor begins =
      emit(Op::Ne, {first, zeros(*first.trace(), {1}, DType::I64, where)}, {}, where);
  const Tensor each =
      emit(Op::Sub, {slice(edges, 0, 1, segments, where), slice(edges, 0, 0, segments, where)}, {},
           where);
  const Tensor steps = checked_steps(
      "lengths_of", cat({neg(cast(begins, DType::I64, where), where), each}, 0, where), where);
  return slice(steps, 0, 1, segments, where);
}

Jagged with_values(const Jagged& x, const Tensor& values) { return {values, x.lengths}; }

Tensor segment_of_rows(const Jagged& x, Line where) {
  constexpr std::string_view kWhat = "a jagged tensor";
  (void)trace_of(kWhat, std::vector{x.values, x.lengths}, where);
  const Tensor lengths = wide_lengths(kWhat, x.lengths, 1, where);
  need_rows(kWhat, x.values, where);
  return segment_ids(lengths, x.values.size(0, where), where);
}

Tensor place_of_rows(const Jagged& x, Line where) {
  const Tensor segment = segment_of_rows(x, where);
  const Tensor lengths = wide_lengths("a jagged tensor", x.lengths, 1, where);
  const Tensor starts = emit(Op::Sub, {cumsum(lengths, where), lengths}, {}, where);
  return emit(Op::Sub,
              {arange(*segment.trace(), x.values.size(0, where), where),
               index_select(starts, segment, where)},
              {}, where);
}

Tensor repeat_by_segment(const Tensor& table, const Jagged& x, Line where) {
  return index_select(table, segment_of_rows(x, where), where);
}

Jagged all_features(const KeyedJagged& x, Line where) {
  const Tensor lengths = wide_lengths("a keyed jagged tensor", x.lengths, 2, where);
  return {x.values, flatten(lengths, 0, -1, where)};
}

Tensor feature_of_rows(const KeyedJagged& x, Line where) {
  const Tensor lengths = wide_lengths("a keyed jagged tensor", x.lengths, 2, where);
  return segment_of_rows({x.values, sum(lengths, {1}, Keep::Drop, where)}, where);
}

std::vector<Jagged> split_features(const KeyedJagged& x, Line where) {
  constexpr std::string_view kWhat = "split_features";
  const Tensor lengths = wide_lengths(kWhat, x.lengths, 2, where);
  need_rows(kWhat, x.values, where);
  const auto count = lengths.size(0, where).expr().constant();
  if (!count)
    refuse(where, kWhat,
           fmt::format("needs a number of features that is a number of the program, not {}",
                       meta_text(meta_of(x.lengths))));
  const Sizes rows = tolist(sum(lengths, {1}, Keep::Drop, where), Values::NonNegative, where);
  const std::vector<Tensor> values = split(x.values, rows, 0, where);
  std::vector<Jagged> out;
  for (std::int64_t f = 0; f < *count; ++f)
    out.push_back({values[static_cast<std::size_t>(f)], select(lengths, 0, f, where)});
  return out;
}

KeyedJagged join_features(const std::vector<Jagged>& features, Line where) {
  std::vector<Tensor> values, lengths;
  for (const Jagged& feature : features) {
    values.push_back(feature.values);
    lengths.push_back(wide_lengths("join_features", feature.lengths, 1, where));
  }
  return {cat(values, 0, where), stack(lengths, 0, where)};
}

}  // namespace lockstep::worker
