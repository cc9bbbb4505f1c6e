// The state that a checkpoint keeps: tensors and small values, in nested structs with `fields` as
// for inputs of frames (inputs.h), and how tensors are spread over ranks.
//
//   struct State {
//     Parameters parameters;
//     std::int64_t step = 0;
//     Key key;
//     template <class V> void fields(V& v) {
//       v("parameters", parameters), v("step", step), v("key", key);
//     }
//   };
//
// A Tensor is equal on all ranks that have its name: the lowest of them writes it. If each rank has
// a part of a larger tensor, `fields` gives the part:
//
//   v("embed", sharded(embed, 0, first_row, all_rows));
//
// A name that only one rank has (an expert of its own) is written by that rank. In the job that
// loads it, every rank with that name reads it, as a whole or in parts.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/worker/files/checkpoint/piece.h>
#include <lockstep/worker/tensor/language/inputs.h>

namespace lockstep::worker {

/// The part from `start` on of a tensor of `global` sizes. Borrows `tensor`.
struct Sharded {
  Tensor& tensor;
  std::vector<std::int64_t> start, global;
};
/// A tensor spread along one dim: `first` is the first of this rank's indices, `total` the size
/// over all ranks. An empty tensor, which is to be loaded, has no sizes: use Sharded with `start`
/// and `global` instead.
[[nodiscard]] Sharded sharded(Tensor& tensor, std::int64_t dim, std::int64_t first,
                              std::int64_t total);

/// A small value that differs by rank. It is saved for every rank, and loads only at the same
/// number of ranks.
template <class T>
struct PerRank {
  T& value;
};
template <class T>
PerRank(T&) -> PerRank<T>;

/// A tensor of the state, with its name and place.
struct StateTensor {
  std::string name;
  Tensor* tensor = nullptr;
  std::optional<std::vector<std::int64_t>> start, global;  // nullopt: the tensor is the whole
};

/// Sets a value to the text that was read. Empty if the text does not fit the value's type.
using ValueSetter = std::function<void()>;

/// A small value of the state. `read` turns a text into a setter; it changes nothing itself.
struct StateValue {
  SmallValue value;
  std::function<ValueSetter(const std::string& text)> read;
};

/// The leaves of a state, in order of its fields. Borrows them.
class StateLeaves {
 public:
  // Called by StateWalk.
  void enter_field(std::string_view name) { path_.enter_field(name); }
  void enter_index(std::size_t i) { path_.enter_index(i); }
  void enter_key(std::string_view key) { path_.enter_key(key); }
  void leave() { path_.leave(); }
  void add(Tensor& tensor) { tensors_.push_back({path_.text(), &tensor, {}, {}}); }
  void add(const Sharded& part) {
    tensors_.push_back({path_.text(), &part.tensor, part.start, part.global});
  }
  void add(ValueKind kind, std::string text, bool per_rank,
           std::function<ValueSetter(const std::string&)> read);

  [[nodiscard]] const std::vector<StateTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<StateValue>& values() const { return values_; }
  /// Errors: BadInput: a name is empty or occurs twice.
  [[nodiscard]] Result<void> check() const;

 private:
  Path path_;
  std::vector<StateTensor> tensors_;
  std::vector<StateValue> values_;
};

// Numbers as text and back; nullopt: not a number.
[[nodiscard]] std::string float_text(double value);
[[nodiscard]] std::optional<double> float_in(const std::string& text);
[[nodiscard]] std::optional<std::int64_t> int_in(const std::string& text);

/// The `V` of users' `fields` functions.
class StateWalk {
 public:
  explicit StateWalk(StateLeaves& leaves) : leaves_(leaves) {}
  template <class T>
  void operator()(std::string_view name, T&& value) {
    leaves_.enter_field(name);
    walk(value, false);
    leaves_.leave();
  }

 private:
  template <class T>
  void walk(T& value, bool per_rank);
  template <class T>
  void number(T& value, bool per_rank);
  StateLeaves& leaves_;
};

/// The leaves of `state`, which outlives them.
template <class T>
[[nodiscard]] StateLeaves leaves_of(T& state) {
  StateLeaves leaves;
  StateWalk walk(leaves);
  state.fields(walk);
  return leaves;
}

/// Returns the pieces of the tensors, in order. Errors: BadInput, naming the tensor: it is traced,
/// has no elements, or does not lie within its global sizes.
[[nodiscard]] Result<std::vector<Piece>> pieces_of(const StateLeaves& leaves);

namespace detail {
template <class T>
inline constexpr bool is_per_rank = false;
template <class T>
inline constexpr bool is_per_rank<PerRank<T>> = true;

/// Returns a StateValue::read made of `read`, which turns text into the value, or nullopt if it
/// cannot.
template <class T, class Read>
[[nodiscard]] auto reading(T& value, Read read) {
  return [&value, read](const std::string& text) -> ValueSetter {
    const auto found = read(text);
    if (!found) return {};
    return [&value, found] { value = T(*found); };
  };
}
}  // namespace detail

template <class T>
void StateWalk::number(T& value, bool per_rank) {
  if constexpr (std::same_as<T, bool>) {
    const auto read = [](const std::string& text) {
      return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
    };
    leaves_.add(ValueKind::Bool, value ? "true" : "false", per_rank, detail::reading(value, read));
  } else if constexpr (std::floating_point<T>) {
    leaves_.add(ValueKind::Float, float_text(static_cast<double>(value)), per_rank,
                detail::reading(value, float_in));
  } else {
    const auto read = [](const std::string& text) {
      const auto wide = int_in(text);
      const bool fits = wide && static_cast<std::int64_t>(static_cast<T>(*wide)) == *wide;
      return fits ? wide : std::nullopt;
    };
    leaves_.add(ValueKind::Int, std::to_string(static_cast<std::int64_t>(value)), per_rank,
                detail::reading(value, read));
  }
}

template <class T>
void StateWalk::walk(T& value, bool per_rank) {
  using U = std::remove_const_t<T>;
  if constexpr (std::same_as<U, Tensor> || std::same_as<U, Sharded>) {
    leaves_.add(value);
  } else if constexpr (detail::is_per_rank<U>) {
    walk(value.value, true);
  } else if constexpr (std::same_as<U, Key> || std::same_as<U, RankKey>) {
    leaves_.add(ValueKind::Key, std::to_string(value.value()), std::same_as<U, RankKey>,
                detail::reading(value, int_in));
  } else if constexpr (std::same_as<U, std::string>) {
    const auto read = [](const std::string& text) { return std::optional(text); };
    leaves_.add(ValueKind::Text, value, per_rank, detail::reading(value, read));
  } else if constexpr (std::same_as<U, SymInt>) {
    leaves_.add(ValueKind::Int, std::to_string(value.to_int()), per_rank,
                detail::reading(value, int_in));
  } else if constexpr (std::same_as<U, SymFloat>) {
    leaves_.add(ValueKind::Float, float_text(value.value()), per_rank,
                detail::reading(value, float_in));
  } else if constexpr (std::is_arithmetic_v<U> || std::is_enum_v<U>) {
    number(value, per_rank);
  } else if constexpr (detail::is_vector<U>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      leaves_.enter_index(i);
      walk(value[i], per_rank);
      leaves_.leave();
    }
  } else if constexpr (detail::is_map<U>) {
    for (auto& [key, of_key] : value) {
      leaves_.enter_key(key);
      walk(of_key, per_rank);
      leaves_.leave();
    }
  } else if constexpr (detail::is_optional<U>) {
    if (value) walk(*value, per_rank);
  } else if constexpr (detail::is_pair<U>) {
    (*this)("first", value.first), (*this)("second", value.second);
  } else {
    value.fields(*this);
  }
}

}  // namespace lockstep::worker
