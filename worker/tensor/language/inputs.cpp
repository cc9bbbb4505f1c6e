#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

void Path::enter_field(std::string_view name) {
  lengths_.push_back(text_.size());
  if (!text_.empty()) text_ += '.';
  text_ += name;
}
void Path::enter_index(std::size_t i) {
  lengths_.push_back(text_.size());
  text_ += fmt::format("[{}]", i);
}
void Path::enter_key(std::string_view key) {
  lengths_.push_back(text_.size());
  text_ += "[\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }
  text_ += "\"]";
}
void Path::leave() {
  text_.resize(lengths_.back());
  lengths_.pop_back();
}

void InputReader::leaf(const SymFloat& f) {
  const InputTree::Leaf* leaf = next(Kind::Float);
  fits_ = leaf && !f.traced();
  if (fits_) out_.scalars[leaf->scalar] = std::bit_cast<std::int64_t>(f.value());
}

void InputReader::leaf(const double& f) {
  const InputTree::Leaf* leaf = next(Kind::Float);
  fits_ = leaf != nullptr;
  if (fits_) out_.scalars[leaf->scalar] = std::bit_cast<std::int64_t>(f);
}

void InputReader::leaf(const Tensor& tensor) {
  const InputTree::Leaf* leaf = next(Kind::Tensor);
  if (tensor.traced()) {  // the scanner reports it
    fits_ = false;
    return;
  }
  const Array& array = tensor.array();
  const std::vector<std::int64_t>& sizes = array.sizes();
  if (!leaf || !array || leaf->dtype != array.dtype() || leaf->ndim != sizes.size()) {
    fits_ = false;
    return;
  }
  std::copy(sizes.begin(), sizes.end(), values_ + leaf->offset);
  if (sizes.empty() && array.dtype() < DType::F16) out_.scalars[leaf->scalar] = *scalar_in(array);
  if (!tensor.marks().empty()) mark(*leaf, tensor.marks());
}

void InputReader::leaf(const RankKey& key) {
  const InputTree::Leaf* leaf = next(Kind::Tensor);
  fits_ = leaf && !key.traced() && leaf->dtype == DType::I64 && leaf->ndim == 0;
  if (fits_) out_.scalars[leaf->scalar] = key.value();
}

void InputReader::leaf(const FieldInput& field) {
  fits_ = fits_ && field_ < tree_.fields_.size();
  if (fits_) out_.fields.push_back(field.named(tree_.fields_[field_]));
  ++field_;
}

void InputReader::leaf(const OpaqueInput& object) {
  fits_ = fits_ && field_ < tree_.fields_.size() && !object.empty();
  if (fits_) out_.fields.push_back(tree_.objects_->field(tree_.fields_[field_], object));
  ++field_;
}

void InputReader::keys(const std::vector<std::string_view>& order) {
  fits_ = fits_ && field_ < tree_.fields_.size();
  if (fits_) out_.fields.push_back(key_order_field(tree_.fields_[field_], order));
  ++field_;
}

void InputReader::mark(const InputTree::Leaf& leaf, const std::vector<Mark>& marks) {
  if (out_.marks.empty()) out_.marks.resize(out_.values.size(), Mark::None);
  std::copy(marks.begin(), marks.end(), out_.marks.begin() + leaf.offset);
}

void InputReader::number(Kind kind, std::optional<std::int64_t> value) {
  const InputTree::Leaf* leaf = next(kind);
  fits_ = leaf && value;
  if (fits_) values_[leaf->offset] = *value;
}

void InputScanner::enter_key(std::string_view key) {
  path_.enter_key(key);
  tree_.keys_.emplace_back(key);
}

void InputScanner::fail(std::string words) {
  const std::string& name = path_.text().empty() ? "the input" : path_.text();
  if (!failure_) failure_ = bad_input(fmt::format("{} {}", name, words), path_.text());
}

void InputScanner::add(Kind kind, DType dtype, std::uint32_t ndim) {
  const std::string name = path_.text().empty() ? "input" : path_.text();
  specs_.push_back({name, kind, dtype, ndim});
  tree_.leaves_.push_back({kind, dtype, ndim, 0, 0, 0});
}

void InputScanner::leaf(const Tensor& tensor) {
  if (tensor.traced())
    fail("is a tensor of a trace; pass what the frame returned, not what it computed with");
  if (tensor.empty()) fail("is an empty tensor; give it a value");
  if (!failure_) add(Kind::Tensor, tensor.dtype(), static_cast<std::uint32_t>(tensor.ndim()));
}
void InputScanner::leaf(const SymInt& n) {
  if (n.trace() || !n.expr().constant()) fail("is an integer of a trace; pass a number");
  add(Kind::Int);
}
void InputScanner::leaf(const SymFloat& f) {
  if (f.traced()) fail("is a float of a trace; pass a number");
  add(Kind::Float);
}
void InputScanner::leaf(const RankKey& key) {
  if (key.traced()) fail("is a key of a trace; pass what the frame returned");
  add(Kind::Tensor, DType::I64, 0);
}

void InputScanner::leaf(const FieldInput&) {
  tree_.fields_.push_back(path_.text().empty() ? "input" : path_.text());
}

void InputScanner::leaf(const OpaqueInput& object) {
  if (object.empty()) fail("has no object; give it one");
  tree_.fields_.push_back(path_.text().empty() ? "input" : path_.text());
}

void InputScanner::keys(const std::vector<std::string_view>&) {
  tree_.fields_.push_back(path_.text().empty() ? "input" : path_.text());
}

Result<InputTree> InputScanner::take() {
  if (failure_) return *failure_;
  std::vector<std::uint32_t> order(specs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return specs_[a].name < specs_[b].name; });
  std::vector<SourceSpec> sorted;
  for (const std::uint32_t i : order) {
    if (!sorted.empty() && sorted.back().name == specs_[i].name)
      return bad_input(
          fmt::format("two inputs are called {}; rename one of the fields", specs_[i].name),
          specs_[i].name);
    sorted.push_back(specs_[i]);
  }
  const auto list = std::make_shared<const SourceList>(std::move(sorted));
  for (std::uint32_t s = 0; s < order.size(); ++s) {
    tree_.leaves_[order[s]].source = s;
    tree_.leaves_[order[s]].offset = list->offsets()[s];
    tree_.leaves_[order[s]].scalar = list->scalar(s).value_or(0);
  }
  tree_.list_ = list;
  return std::move(tree_);
}

void detail::OutputCollector::leaf(const OpaqueInput&) {
  throw TraceUsageError("output " + name() +
                        " is an object; a frame returns what it computes, so return tensors");
}

void detail::OutputCollector::leaf(const SymInt& n) {
  if (n.trace() && n.trace().get() != &trace_)
    throw TraceUsageError("output " + name() +
                          " is an integer of another trace; return what the frame computes from "
                          "its inputs");
  trace_.output(name(), scalar(trace_, n));
}

}  // namespace lockstep::worker
