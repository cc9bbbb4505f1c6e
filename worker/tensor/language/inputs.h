// Nested inputs and outputs: structs, vectors, arrays, pairs, optionals and maps of tensors, ints,
// floats and bools, as users write them. A struct says what it holds:
//
//   struct Batch {
//     Tensor tokens;
//     SymInt step;
//     template <class V> void fields(V& v) { v("tokens", tokens); v("step", step); }
//   };
//
// Leaves: Tensor; SymInt (an int that may become symbolic); SymFloat (a runtime value); Key and
// RankKey (key.h; runtime values, too); ints, doubles and enums (never symbolic: in a trace each is
// pinned by a guard); bool (a constant of the graph); FieldInput (a value that the ranks join);
// Opaque (an object; the graph holds what the trace read of it). An optional is the bool has_value
// and, if that is true, its content. A vector of pairs of names and values has the names of a map
// and its own order, which ranks compare. Leaves get readable names: batch.tokens,
// params.layers[3].w1, params.extra["k"].
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/worker/tensor/language/key.h>
#include <lockstep/worker/tensor/trace/field_input.h>
#include <lockstep/worker/tensor/trace/opaque.h>
#include <lockstep/worker/tensor/trace/tensor.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

/// Walks a nested value in order of declaration and calls `On` for each leaf, each step down and
/// the length of each vector and map. User structs know it as `V`.
template <class On>
class FieldWalk {
 public:
  explicit FieldWalk(On& on) : on_(on) {}
  template <class T>
  void operator()(std::string_view name, T& value) {
    on_.enter_field(name);
    walk(value);
    on_.leave();
  }
  template <class T>
  void walk(T& value);

 private:
  On& on_;
};

template <class T>
concept InputLeaf = std::same_as<T, Tensor> || std::same_as<T, SymInt> ||
    std::same_as<T, SymFloat> || std::same_as<T, std::int64_t> || std::same_as<T, bool> ||
    std::same_as<T, FieldInput> || std::same_as<T, Key> || std::same_as<T, RankKey>;

/// Arguments of a frame with names of their own: `auto all = arguments({"batch", "params"}, b, p)`.
/// Borrows them.
template <class... T>
struct Arguments {
  std::array<std::string_view, sizeof...(T)> names;
  std::tuple<T&...> values;
  template <class V>
  void fields(V& v) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (v(names[I], std::get<I>(values)), ...); }
    (std::index_sequence_for<T...>());
  }
};
template <class... T>
[[nodiscard]] Arguments<T...> arguments(std::array<std::string_view, sizeof...(T)> names,
                                        T&... values) {
  return {names, std::tie(values...)};
}

/// The name of the current place of a walk.
class Path {
 public:
  void enter_field(std::string_view name);
  void enter_index(std::size_t i);
  void enter_key(std::string_view key);
  void leave();
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::size_t> lengths_;
};

/// What the last inputs of a frame looked like, and their source list: reused as long as structure,
/// kinds, dtypes and numbers of dims stay the same. Single-threaded.
class InputTree {
 public:
  /// An empty tree of the same frame. It shares only the table of objects with this tree.
  [[nodiscard]] InputTree anew() const {
    InputTree out;
    out.objects_ = objects_;
    return out;
  }
  /// A leaf, in order of the walk.
  struct Leaf {
    Kind kind = Kind::Tensor;
    DType dtype = DType::F32;
    std::uint32_t ndim = 0;
    std::uint32_t offset = 0;  // index in Observation::values
    std::uint32_t source = 0;  // index in the source list
    std::uint32_t scalar = 0;  // in Observation::scalars, where the source has one
  };
  [[nodiscard]] const std::vector<Leaf>& leaves() const { return leaves_; }
  [[nodiscard]] const std::shared_ptr<const SourceList>& list() const { return list_; }
  /// Names of fields, in order of the walk.
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }

 private:
  friend class InputReader;
  friend class InputScanner;
  std::vector<Leaf> leaves_;
  std::vector<std::size_t> lengths_;  // lengths of vectors and maps, in order of the walk
  std::vector<std::string> keys_;     // keys of maps, in order of the walk
  std::vector<std::string> fields_;
  std::shared_ptr<const SourceList> list_;
  /// The objects of the frame: shared by copies and by rebuilt trees.
  std::shared_ptr<ObjectTable> objects_ = std::make_shared<ObjectTable>();
};

/// Reads values into an observation along a known tree; stops fitting at the first difference.
class InputReader {
 public:
  InputReader(const InputTree& tree, Observation& out)
      : tree_(tree), values_(out.values.data()), out_(out) {}
  void enter_field(std::string_view) {}
  void enter_index(std::size_t) {}
  void enter_key(std::string_view key) {
    fits_ = fits_ && key_ < tree_.keys_.size() && tree_.keys_[key_] == key;
    ++key_;
  }
  void leave() {}
  void length(std::size_t n) {
    fits_ = fits_ && length_ < tree_.lengths_.size() && tree_.lengths_[length_] == n;
    ++length_;
  }
  void leaf(const Tensor& tensor);
  void leaf(const SymInt& n) { number(Kind::Int, n.expr().constant()); }
  void leaf(const std::int64_t& n) { number(Kind::Int, n); }
  void leaf(const bool& b) { number(Kind::Bool, b ? 1 : 0); }
  void leaf(const SymFloat& f);
  void leaf(const double& f);
  void leaf(const FieldInput& field);
  void leaf(const OpaqueInput& object);
  void keys(const std::vector<std::string_view>& order);
  void leaf(const RankKey& key);
  void leaf(const Key& key) { leaf(RankKey(key)); }
  /// True if the inputs have exactly the leaves, lengths, keys and fields of the tree.
  [[nodiscard]] bool fits() const {
    return fits_ && leaf_ == tree_.leaves_.size() && length_ == tree_.lengths_.size() &&
           key_ == tree_.keys_.size() && field_ == tree_.fields_.size();
  }

 private:
  const InputTree::Leaf* next(Kind kind) {
    if (!fits_ || leaf_ >= tree_.leaves_.size()) return nullptr;
    const InputTree::Leaf& leaf = tree_.leaves_[leaf_++];
    return leaf.kind == kind ? &leaf : nullptr;
  }
  void number(Kind kind, std::optional<std::int64_t> value);
  void mark(const InputTree::Leaf& leaf, const std::vector<Mark>& marks);
  const InputTree& tree_;
  std::int64_t* values_;
  Observation& out_;
  std::size_t leaf_ = 0, length_ = 0, key_ = 0, field_ = 0;
  bool fits_ = true;
};

/// Builds a new tree.
class InputScanner {
 public:
  /// `empty`: a tree of the frame without leaves.
  explicit InputScanner(InputTree empty) : tree_(std::move(empty)) {}
  void enter_field(std::string_view name) { path_.enter_field(name); }
  void enter_index(std::size_t i) { path_.enter_index(i); }
  void enter_key(std::string_view key);
  void leave() { path_.leave(); }
  void length(std::size_t n) { tree_.lengths_.push_back(n); }
  void leaf(const Tensor& tensor);
  void leaf(const SymInt& n);
  void leaf(const std::int64_t&) { add(Kind::Int); }
  void leaf(const bool&) { add(Kind::Bool); }
  void leaf(const SymFloat& f);
  void leaf(const double&) { add(Kind::Float); }
  void leaf(const FieldInput&);
  void leaf(const OpaqueInput& object);
  void keys(const std::vector<std::string_view>& order);
  void leaf(const RankKey& key);
  void leaf(const Key& key) { leaf(RankKey(key)); }
  /// Errors: BadInput, naming the leaf: an empty or traced value, a name that is empty or taken.
  [[nodiscard]] Result<InputTree> take();

 private:
  void add(Kind kind, DType dtype = DType::F32, std::uint32_t ndim = 0);
  void fail(std::string words);
  InputTree tree_;
  Path path_;
  std::vector<SourceSpec> specs_;
  std::optional<Status> failure_;
};

/// Flattens `inputs` into `out`, whose memory is reused. `tree` is this frame's, empty at first; it
/// is rebuilt if the inputs look different. Errors: BadInput, as InputScanner::take.
template <class T>
[[nodiscard]] Result<void> flatten(T& inputs, InputTree& tree, Observation& out);

/// The arrays and floats of `inputs`, indexed by source (ints and bools: empty): what a graph runs
/// on. Requires the tree of these inputs.
struct InputValue {
  Array array;
  double number = 0;
};
template <class T>
void input_values(T& inputs, const InputTree& tree, std::vector<InputValue>& out);

/// Drops the tensors of `inputs`, which the caller gives up.
template <class T>
void release(T& inputs);

/// `example` with every leaf replaced by what stands for it in the trace. Requires the tree of the
/// example, and a decision over the same sources.
template <class T>
[[nodiscard]] T traced_like(const T& example, const InputTree& tree, Trace& trace);

/// Makes every tensor, SymInt and traced SymFloat in `result` an output of the trace, named like
/// inputs; an output without a name is called "result". Ints become 0-d i64 outputs.
template <class T>
void add_outputs(T& result, Trace& trace);

/// `result` as passed to add_outputs, with the leaves replaced by values in order of the outputs.
template <class T>
[[nodiscard]] T filled_like(const T& result, std::span<const Array> outputs);

}  // namespace lockstep::worker

#include <lockstep/worker/tensor/language/inputs_walk.h>
