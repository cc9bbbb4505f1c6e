// The templates of inputs.h: how a walk descends, and the walks that rebuild values. Included by
// inputs.h only.
#pragma once

#include <lockstep/worker/tensor/language/inputs.h>

namespace lockstep::worker {
namespace detail {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = !std::same_as<T, bool>;
template <class T, std::size_t kSize>
inline constexpr bool is_vector<std::array<T, kSize>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class T>
inline constexpr bool is_map<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool is_ordered_map = false;
template <class T>
inline constexpr bool is_ordered_map<std::vector<std::pair<std::string, T>>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;
template <class T>
inline constexpr bool is_int = std::is_enum_v<T> || std::integral<T>;

/// A walk that uses no names.
class NamelessWalk {
 public:
  void enter_field(std::string_view) {}
  void enter_index(std::size_t) {}
  void enter_key(std::string_view) {}
  void leave() {}
  void length(std::size_t) {}
  void keys(const std::vector<std::string_view>&) {}
};

class ValueReader final : public NamelessWalk {
 public:
  ValueReader(const InputTree& tree, std::vector<InputValue>& out) : tree_(tree), out_(out) {}
  void leaf(const Tensor& tensor) { here().array = tensor.array(); }
  void leaf(const SymFloat& f) { here().number = f.value(); }
  void leaf(const double& f) { here().number = f; }
  void leaf(const SymInt&) { ++next_; }
  void leaf(const std::int64_t&) { ++next_; }
  void leaf(const bool&) { ++next_; }
  void leaf(const FieldInput&) {}
  void leaf(const OpaqueInput&) {}
  void leaf(const RankKey& key) { here().array = key.array(); }
  void leaf(const Key& key) { leaf(RankKey(key)); }

 private:
  InputValue& here() { return out_[tree_.leaves()[next_++].source]; }
  const InputTree& tree_;
  std::vector<InputValue>& out_;
  std::size_t next_ = 0;
};

class TraceFiller final : public NamelessWalk {
 public:
  TraceFiller(const InputTree& tree, Trace& trace) : tree_(tree), trace_(trace) {}
  void leaf(Tensor& tensor) { tensor = trace_.tensor_input(next()); }
  void leaf(SymFloat& f) { f = trace_.float_input(next()); }
  void leaf(double& f) { f = trace_.fixed_float_input(next(), f); }
  void leaf(SymInt& n) { n = trace_.int_input(next()); }
  void leaf(std::int64_t& n) { n = trace_.fixed_int_input(next()); }
  void leaf(bool& b) { b = trace_.bool_input(next()); }
  void leaf(FieldInput& field) {
    field = FieldInput::of(trace_.joined_field(tree_.fields()[field_++]));
  }
  void leaf(OpaqueInput&) { ++field_; }
  void keys(const std::vector<std::string_view>&) { ++field_; }
  void leaf(RankKey& key) { key = RankKey(trace_.tensor_input(next())); }
  void leaf(Key& key) { key = key_input(trace_, next()); }

 private:
  std::size_t next() { return tree_.leaves()[next_++].source; }
  const InputTree& tree_;
  Trace& trace_;
  std::size_t next_ = 0, field_ = 0;
};

class OutputCollector final {
 public:
  explicit OutputCollector(Trace& trace) : trace_(trace) {}
  void enter_field(std::string_view name) { path_.enter_field(name); }
  void enter_index(std::size_t i) { path_.enter_index(i); }
  void enter_key(std::string_view key) { path_.enter_key(key); }
  void leave() { path_.leave(); }
  void length(std::size_t) {}
  void keys(const std::vector<std::string_view>&) {}
  void leaf(const Tensor& tensor) { trace_.output(name(), tensor); }
  void leaf(const SymInt& n);
  void leaf(const SymFloat& f) {
    if (f.traced()) trace_.output(name(), f.tensor());
  }
  void leaf(const double&) {}
  void leaf(const std::int64_t&) {}
  void leaf(const bool&) {}
  void leaf(const FieldInput&) {}
  void leaf(const OpaqueInput&);
  void leaf(const RankKey& key) {
    if (key.traced()) trace_.output(name(), key.tensor());
  }
  void leaf(const Key& key) { leaf(RankKey(key)); }

 private:
  [[nodiscard]] std::string name() const { return path_.text().empty() ? "result" : path_.text(); }
  Trace& trace_;
  Path path_;
};

/// Drops tensors.
class InputReleaser final : public NamelessWalk {
 public:
  void leaf(Tensor& tensor) { tensor = Tensor(); }
  template <class T>
  void leaf(T&) {}
};

class OutputFiller final : public NamelessWalk {
 public:
  explicit OutputFiller(std::span<const Array> outputs) : outputs_(outputs) {}
  void leaf(Tensor& tensor) { tensor = Tensor(outputs_[next_++]); }
  void leaf(SymInt& n) { n = *outputs_[next_++].data_as<std::int64_t>(); }
  void leaf(SymFloat& f) {
    if (f.traced()) f = outputs_[next_++].at(0);
  }
  void leaf(double&) {}
  void leaf(std::int64_t&) {}
  void leaf(bool&) {}
  void leaf(FieldInput&) {}
  void leaf(OpaqueInput&) {}
  template <class K>
  requires std::same_as<K, Key> || std::same_as<K, RankKey>
  void leaf(K& key) {
    if (key.traced()) key = K(*outputs_[next_++].data_as<std::int64_t>());
  }

 private:
  std::span<const Array> outputs_;
  std::size_t next_ = 0;
};

}  // namespace detail

template <class On>
template <class T>
void FieldWalk<On>::walk(T& value) {
  if constexpr (InputLeaf<T>) {
    on_.leaf(value);
  } else if constexpr (std::derived_from<T, OpaqueInput>) {
    on_.leaf(static_cast<OpaqueInput&>(value));
  } else if constexpr (detail::is_ordered_map<T>) {
    std::vector<std::string_view> order;
    for (const auto& entry : value) order.push_back(entry.first);
    on_.length(value.size());
    on_.keys(order);
    for (auto& [key, element] : value) {
      on_.enter_key(key);
      walk(element);
      on_.leave();
    }
  } else if constexpr (detail::is_vector<T>) {
    on_.length(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      on_.enter_index(i);
      walk(value[i]);
      on_.leave();
    }
  } else if constexpr (detail::is_map<T>) {
    on_.length(value.size());
    for (auto& [key, element] : value) {
      on_.enter_key(key);
      walk(element);
      on_.leave();
    }
  } else if constexpr (detail::is_optional<T>) {
    bool filled = value.has_value();  // a leaf of its own: the content may have no leaf
    on_.length(filled ? 1 : 0);
    (*this)("has_value", filled);
    if (value) walk(*value);
  } else if constexpr (detail::is_pair<T>) {
    (*this)("first", value.first);
    (*this)("second", value.second);
  } else if constexpr (std::floating_point<T>) {
    auto number = static_cast<double>(value);
    on_.leaf(number);
    value = static_cast<T>(number);
  } else if constexpr (detail::is_int<T>) {
    auto number = static_cast<std::int64_t>(value);
    on_.leaf(number);
    value = static_cast<T>(number);
  } else if constexpr (requires { value.fields(*this); }) {
    value.fields(*this);
  } else {
    static_assert(!detail::is_complex<T>,
                  "complex numbers are not supported; pass the real and the imaginary part");
    static_assert(
        detail::is_complex<T> || InputLeaf<T>,
        "an input is a Tensor, SymInt, SymFloat, FieldInput, Opaque, Key, RankKey, a number, bool "
        "or enum, a vector, array, pair, optional or string map of inputs, or a struct with "
        "fields()");
  }
}

template <class T>
Result<void> flatten(T& inputs, InputTree& tree, Observation& out) {
  const auto read = [&] {
    if (out.list != tree.list()) out.list = tree.list();
    out.values.resize(tree.list()->offsets().back());
    out.scalars.resize(tree.list()->scalars());
    out.marks.clear();
    out.fields.clear();
    InputReader reader(tree, out);
    FieldWalk<InputReader>(reader).walk(inputs);
    if (!out.fields.empty()) sort_fields(out.fields);
    return reader.fits();
  };
  if (tree.list() && read()) return {};
  InputScanner scanner(tree.anew());
  FieldWalk<InputScanner>(scanner).walk(inputs);
  Result<InputTree> fresh = scanner.take();
  if (!fresh) return fresh.error();
  tree = std::move(*fresh);
  if (read()) return {};
  return bad_input("the inputs changed while they were read");
}

template <class T>
void input_values(T& inputs, const InputTree& tree, std::vector<InputValue>& out) {
  out.resize(tree.list()->sources().size());
  detail::ValueReader reader(tree, out);
  FieldWalk<detail::ValueReader>(reader).walk(inputs);
}

template <class T>
void release(T& inputs) {
  if constexpr (std::is_default_constructible_v<T> && std::is_move_assignable_v<T>) {
    inputs = T();
  } else {
    detail::InputReleaser releaser;
    FieldWalk<detail::InputReleaser>(releaser).walk(inputs);
  }
}

template <class T>
T traced_like(const T& example, const InputTree& tree, Trace& trace) {
  T copy = example;
  detail::TraceFiller filler(tree, trace);
  FieldWalk<detail::TraceFiller>(filler).walk(copy);
  return copy;
}

template <class T>
void add_outputs(T& result, Trace& trace) {
  detail::OutputCollector collector(trace);
  FieldWalk<detail::OutputCollector>(collector).walk(result);
}

template <class T>
T filled_like(const T& result, std::span<const Array> outputs) {
  T copy = result;
  detail::OutputFiller filler(outputs);
  FieldWalk<detail::OutputFiller>(filler).walk(copy);
  return copy;
}

}  // namespace lockstep::worker
