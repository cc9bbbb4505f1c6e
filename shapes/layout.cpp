#include <algorithm>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <lockstep/shapes/layout.h>

namespace lockstep::shapes {
namespace {

using Numbers = std::span<const std::int64_t>;

// Works out the dims in the order in which they need each other.
class Inference {
 public:
  Inference(ShapeEnv& env, std::string_view source, const SeenDims& seen,
            std::span<const Expr> sizes, const LayoutExample& example)
      : env_(env), source_(source), seen_(seen), sizes_(sizes), example_(example) {
    strides_.resize(sizes.size());
    begun_.resize(sizes.size());
  }

  std::vector<Expr> run() {
    std::vector<Expr> out;
    for (std::size_t d = 0; d < sizes_.size(); ++d) out.push_back(stride(d));
    return out;
  }

 private:
  const Expr& stride(std::size_t dim) {
    if (!strides_[dim]) {
      begun_[dim] = true;
      strides_[dim] = inferred(dim);
    }
    return *strides_[dim];
  }

  Expr inferred(std::size_t dim) {
    const bool known = seen_.state == SeenDims::State::Tuple && dim < seen_.dims.size();
    const Seen cell = known ? seen_.dims[dim] : Seen::dynamic();
    if (cell.state == Seen::State::Static) return cell.value;
    const auto from = static_cast<std::size_t>(cell.value);
    // No rank's strides go round in a ring; words from elsewhere might.
    if (cell.state != Seen::State::Inferred || from >= sizes_.size() ||
        (begun_[from] && !strides_[from])) {
      return env_.backed(fmt::format("{}.stride({})", source_, dim), example_.strides[dim],
                         {0, Range::kMax});
    }
    // A dim without elements does not shrink the strides further out.
    return stride(from) * env_.simplify(max(sizes_[from], 1));
  }

  ShapeEnv& env_;
  std::string_view source_;
  const SeenDims& seen_;
  std::span<const Expr> sizes_;
  const LayoutExample& example_;
  std::vector<std::optional<Expr>> strides_;
  std::vector<bool> begun_;
};

}  // namespace

bool is_contiguous(Numbers sizes, Numbers strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    if (__builtin_mul_overflow(expected, sizes[d], &expected)) return false;
  }
  return true;
}

std::vector<std::int64_t> canonical_strides(Numbers sizes, Numbers strides) {
  if (sizes.size() != strides.size()) {
    throw std::logic_error("canonical_strides: as many strides as sizes are required");
  }
  if (is_contiguous(sizes, strides)) return contiguous_strides(sizes);
  std::vector<std::int64_t> out(strides.begin(), strides.end());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1) continue;
    out[d] = 1;
    if (d + 1 < sizes.size() && __builtin_mul_overflow(out[d + 1], sizes[d + 1], &out[d])) {
      out[d] = strides[d];
    }
  }
  return out;
}

std::vector<Seen> canonical_encoding(Numbers sizes, Numbers strides) {
  if (!is_contiguous(sizes, strides)) {
    return encode_strides(sizes, canonical_strides(sizes, strides));
  }
  std::vector<Seen> out;
  for (std::size_t d = 1; d < sizes.size(); ++d) {
    out.push_back(Seen::inferred(static_cast<std::int64_t>(d)));
  }
  if (!sizes.empty()) out.push_back(Seen::constant(1));
  return out;
}

Layout infer_layout(ShapeEnv& env, std::string_view source, const Dynamism& seen,
                    const Seen& offset, std::span<const Expr> sizes, const LayoutExample& example) {
  if (sizes.size() != example.strides.size()) {
    throw std::logic_error("infer_layout: as many example strides as sizes are required");
  }
  Layout out;
  out.strides = Inference(env, source, seen.stride, sizes, example).run();
  out.storage_offset = offset.state == Seen::State::Static
                           ? Expr(offset.value)
                           : env.backed(fmt::format("{}.storage_offset()", source),
                                        example.storage_offset, {0, Range::kMax});
  return out;
}

}  // namespace lockstep::shapes
