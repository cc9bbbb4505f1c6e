#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Tensor reduced_loss(const Tensor& each, Reduction reduction, const Line& where) {
  if (reduction == Reduction::None) return each;
  return reduction == Reduction::Sum ? sum(each, {}, Keep::Drop, where)
                                     : mean(each, {}, Keep::Drop, where);
}

std::int64_t class_dim(std::string_view what, const Tensor& x, const Line& where) {
  need_floats(what, x, where);
  if (x.ndim() == 0) refuse(where, what, "takes a tensor with a dim of classes, not one number");
  return x.ndim() == 1 ? 0 : 1;
}

/// A tensor with one element per class, shaped to broadcast against x.
Tensor per_class(std::string_view what, const Tensor& weight, const Tensor& x, std::int64_t dim,
                 const Line& where) {
  const Expr classes = meta_of(x).sizes[static_cast<std::size_t>(dim)];
  std::vector<Expr> seen(static_cast<std::size_t>(x.ndim()), Expr(1));
  seen[static_cast<std::size_t>(dim)] = classes;
  return view(of_sizes(what, "weight", weight, {classes}, where), seen, where);
}

/// Labels, which of them count, and their weights.
struct Targets {
  Tensor labels;  // 0 where they do not count
  Tensor counts;  // bool
  Tensor weight;  // weights in x's dtype; 0 where they do not count
};

Targets targets_of(std::string_view what, const Tensor& x, const Tensor& labels,
                   const Tensor& weight, std::int64_t ignored, std::int64_t dim,
                   const Line& where) {
  const At at{where};
  const Tensor numbers = whole_numbers(what, "the tensor of labels", labels, where);
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x, labels}, where);
  std::vector<Expr> sizes = meta_of(x).sizes;
  const Expr classes = sizes[static_cast<std::size_t>(dim)];
  sizes.erase(sizes.begin() + dim);
  Targets out;
  const TensorOperand given(of_sizes(what, "the tensor of labels", numbers, sizes, where), where);
  out.counts = given != at(scalar(*trace, ignored, where));
  out.labels = lockstep::worker::where(out.counts, given, at(0));
  const TensorOperand counted(cast(out.counts, x.dtype(), where), where);
  out.weight = counted.tensor;
  if (!weight.empty()) {
    const Tensor flat = view(out.labels, {trace->env().simplify(shapes::product(sizes))}, where);
    const Tensor of_labels =
        index_select(of_sizes(what, "weight", weight, {classes}, where), flat, where);
    out.weight = at(view(of_labels, sizes, where)) * counted;
  }
  return out;
}

/// The element of x at each label along `dim`.
Tensor picked(const Tensor& x, const Tensor& labels, std::int64_t dim, const Line& where) {
  return squeeze(gather(x, dim, unsqueeze(labels, dim, where), where), dim, where);
}

/// Reduces `each`, already weighted, over the elements that count.
Tensor reduced_by_label(const Tensor& each, const Tensor& weight, Reduction reduction,
                        const Line& where) {
  const At at{where};
  if (reduction != Reduction::Mean) return reduced_loss(each, reduction, where);
  return at(sum(each, {}, Keep::Drop, where)) / at(sum(weight, {}, Keep::Drop, where));
}

/// `loss` times the label's weight, 0 where the label is ignored.
Tensor weighted(const Tensor& loss, const Targets& targets, const Line& where) {
  const At at{where};
  const Tensor counted = lockstep::worker::where(targets.counts, at(loss), at(0.0));
  return at(counted) * at(targets.weight);
}

Tensor entropy_of_labels(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options,
                         std::int64_t dim, const Line& where) {
  const At at{where};
  const Targets targets =
      targets_of("cross_entropy", x, labels, options.weight, options.ignore_index, dim, where);
  // As log_softmax(), but only for the labels' elements.
  const Tensor top = amax(detach(x, where), {dim}, Keep::Keep, where);
  const Tensor shifted = at(x) - at(top);
  const Tensor total = log(sum(exp(shifted, where), {dim}, Keep::Drop, where), where);
  const Tensor of_label = at(picked(x, targets.labels, dim, where)) - at(squeeze(top, dim, where));
  Tensor each = weighted(at(total) - at(of_label), targets, where);
  if (options.label_smoothing != 0) {
    Tensor all = at(unsqueeze(total, dim, where)) - at(shifted);
    if (!options.weight.empty())
      all = at(all) * at(per_class("cross_entropy", options.weight, x, dim, where));
    const Tensor even =
        lockstep::worker::where(targets.counts, at(mean(all, {dim}, Keep::Drop, where)), at(0.0));
    each =
        at(at(each) * at(1 - options.label_smoothing)) + at(at(even) * at(options.label_smoothing));
  }
  return reduced_by_label(each, targets.weight, options.reduction, where);
}

Tensor entropy_of_probabilities(const Tensor& x, const Tensor& target,
                                const CrossEntropyOptions& options, std::int64_t dim,
                                const Line& where) {
  const At at{where};
  Tensor share =
      of_sizes("cross_entropy", "the tensor of probabilities", target, meta_of(x).sizes, where);
  if (options.label_smoothing != 0) {
    const SymFloat even =
        SymFloat(options.label_smoothing) / as_float(CountOperand(x.size(dim, where), where));
    share = at(at(share) * at(1 - options.label_smoothing)) + at(even);
  }
  Tensor products = at(share) * at(log_softmax(x, dim, where));
  if (!options.weight.empty())
    products = at(products) * at(per_class("cross_entropy", options.weight, x, dim, where));
  return reduced_loss(neg(sum(products, {dim}, Keep::Drop, where), where), options.reduction,
                      where);
}

/// |x - target|; requires equal sizes.
Tensor distance(const Tensor& x, const Tensor& target, const Line& where) {
  const At at{where};
  return abs(at(x) - at(target), where);
}

}  // namespace

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options,
                Line where) {
  const NamedCall call("nll_loss");
  const Tensor& x = log_probabilities;
  const std::int64_t dim = class_dim("nll_loss", x, where);
  if (is_low(x)) {
    NllOptions wide = options;
    wide.weight = widened(options.weight, where);
    return narrowed(nll_loss(widened(x, where), labels, wide, where), x.dtype(),
                    InAutocast::StayF32, where);
  }
  const Targets targets =
      targets_of("nll_loss", x, labels, options.weight, options.ignore_index, dim, where);
  const Tensor each = weighted(neg(picked(x, targets.labels, dim, where), where), targets, where);
  return reduced_by_label(each, targets.weight, options.reduction, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                     Line where) {
  const NamedCall call("cross_entropy");
  (void)trace_of("cross_entropy", std::vector{logits, target}, where);
  if (options.label_smoothing < 0 || options.label_smoothing > 1)
    refuse(where, "cross_entropy",
           fmt::format("label_smoothing is a part from 0 to 1, not {}", options.label_smoothing));
  const std::int64_t dim = class_dim("cross_entropy", logits, where);
  if (is_low(logits)) {
    CrossEntropyOptions wide = options;
    wide.weight = widened(options.weight, where);
    return narrowed(cross_entropy(widened(logits, where), widened(target, where), wide, where),
                    logits.dtype(), InAutocast::StayF32, where);
  }
  return is_float(target.dtype()) ? entropy_of_probabilities(logits, target, options, dim, where)
                                  : entropy_of_labels(logits, target, options, dim, where);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryOptions& options, Line where) {
  const NamedCall call("binary_cross_entropy_with_logits");
  const At at{where};
  need_floats("binary_cross_entropy_with_logits", logits, where);
  if (is_low(logits)) {
    const BinaryOptions wide{widened(options.weight, where), widened(options.pos_weight, where),
                             options.reduction};
    return narrowed(binary_cross_entropy_with_logits(widened(logits, where), widened(target, where),
                                                     wide, where),
                    logits.dtype(), InAutocast::StayF32, where);
  }
  const TensorOperand x(logits, where), y(target, where), one(1.0, where);
  // log(sigmoid(x))
  const Tensor tail = log1p(exp(neg(abs(logits, where), where), where), where);
  const Tensor log_p = at(minimum(x, at(0.0))) - at(tail);
  Tensor positive = log_p;
  if (!options.pos_weight.empty()) {
    const TensorOperand more(at(options.pos_weight) - one, where);
    positive = at(log_p) * at(at(more * y) + one);
  }
  Tensor each = at(at(one - y) * x) - at(positive);
  if (!options.weight.empty()) each = at(each) * at(options.weight);
  return reduced_loss(each, options.reduction, where);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction, Line where) {
  const NamedCall call("mse_loss");
  const At at{where};
  need_floats("mse_loss", x, where);
  if (is_low(x))
    return narrowed(mse_loss(widened(x, where), widened(target, where), reduction, where),
                    x.dtype(), InAutocast::StayF32, where);
  const TensorOperand apart(at(x) - at(target), where);
  return reduced_loss(apart * apart, reduction, where);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta,
                      Line where) {
  const NamedCall call("smooth_l1_loss");
  const At at{where};
  need_floats("smooth_l1_loss", x, where);
  if (is_low(x))
    return narrowed(
        smooth_l1_loss(widened(x, where), widened(target, where), reduction, beta, where),
        x.dtype(), InAutocast::StayF32, where);
  const Tensor apart = distance(x, target, where);
  if (beta < 0) refuse(where, "smooth_l1_loss", "beta is not negative");
  if (beta == 0) return reduced_loss(apart, reduction, where);
  const Tensor bent = huber_loss(x, target, Reduction::None, beta, where);
  return reduced_loss(at(bent) / at(beta), reduction, where);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta,
                  Line where) {
  const NamedCall call("huber_loss");
  const At at{where};
  if (!(delta > 0)) refuse(where, "huber_loss", "delta is positive");
  need_floats("huber_loss", x, where);
  if (is_low(x))
    return narrowed(huber_loss(widened(x, where), widened(target, where), reduction, delta, where),
                    x.dtype(), InAutocast::StayF32, where);
  const TensorOperand apart(distance(x, target, where), where);
  // Splits the distance at delta, so that no branch has to be chosen.
  const TensorOperand near(minimum(apart, at(delta)), where);
  const Tensor bent = at(near * near) * at(0.5);
  const Tensor straight = at(apart - near) * at(delta);
  return reduced_loss(at(bent) + at(straight), reduction, where);
}

}  // namespace lockstep::worker
