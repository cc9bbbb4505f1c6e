// How the inputs of one call site are read: worked out once from an example, then followed on every
// call. Whatever a plan knows of a value (types, keys, dtypes, numbers of dims) it tests again, so
// a value that has changed is never taken for the one before.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpack.h"
#include "python_api.h"

namespace lockstep::python {

/// The functions of liblockstep that a plan calls (lockstep.h), by address: the library is loaded
/// by the package.
struct Functions {
  int (*set_all)(void* observation, const std::int64_t* values, std::size_t count) = nullptr;
  int (*set_sizes)(void* observation, std::size_t source, const std::int64_t* sizes,
                   const std::int64_t* strides) = nullptr;
};

/// The order of a tensor's dims in memory: the dims, counted from 1, from the outermost to the
/// innermost as decimal digits: 1234 of a contiguous one, 1342 of images with channels last. 0:
/// there are gaps between the elements, they overlap, or it has more than 9 dims; contiguous ones
/// of those have 1. `strides`: in elements; null: contiguous.
[[nodiscard]] std::int64_t layout_of(const std::int64_t* sizes, const std::int64_t* strides,
                                     int ndim);
/// Appends what a sequence of integers holds. False: a Python exception is set.
[[nodiscard]] bool append_integers(PyObject* sequence, std::vector<std::int64_t>& out);

class Plan {
 public:
  /// `tree` describes the example, as observation.py's plan_of() writes it; `observation` is the
  /// library's, with sources declared in the order of the tree. Null: a Python exception is set.
  [[nodiscard]] static std::unique_ptr<Plan> make(PyObject* tree, void* observation,
                                                  const Functions& functions);
  /// Reads `value` into the observation. kOther: it has another structure than the example. Else a
  /// code of the library. Leaves no exception.
  [[nodiscard]] int read(PyObject* value);
  static constexpr int kOther = -1;

 private:
  enum class Kind : std::uint8_t { Tensor, Int, Float, Bool, Same, Items, Keys, Fields };
  struct Node {
    Kind kind = Kind::Same;
    Owned type;                  // of the value, exactly
    Owned key;                   // in the value that holds it: a key, or the name of a field
    Owned value;                 // Same: what it equals; Tensor: its dtype
    std::vector<Node> children;  // Items, Keys, Fields
    int ndim = 0;
    const DlExchange* exchange = nullptr;  // null: sizes are attributes
    DlType dl_type{};
    Owned strides;                // the attribute's name; null: no strides
    bool strides_called = false;  // a method, in elements; else an attribute, in bytes
    bool named_dtype = false;     // its dtype is a source of its own, without a value
    bool ordered = false;         // so is the order of its dims
    Owned grad;  // the name of the attribute that is a bool source of its own; null: none is
  };
  struct Strided {
    std::size_t source, at;  // its number; where its sizes stand among the values
    std::vector<std::int64_t> strides;
  };
  [[nodiscard]] static bool learn(PyObject* tree, Node& node);
  [[nodiscard]] static bool learn_tensor(PyObject* tree, Node& node);
  [[nodiscard]] bool follow(const Node& node, PyObject* value);
  [[nodiscard]] bool tensor(const Node& node, PyObject* value);
  [[nodiscard]] bool tensor_by_attributes(const Node& node, PyObject* value);
  [[nodiscard]] bool gradient(const Node& node, PyObject* value);
  /// `strides`: null: contiguous.
  void note_strides(const Node& node, const std::int64_t* strides);
  [[nodiscard]] bool integer(PyObject* value);

  Node root_;
  void* observation_ = nullptr;
  Functions functions_;
  // Of the call that is read.
  std::vector<std::int64_t> values_;
  std::vector<Strided> strided_;
  std::vector<std::int64_t> room_;
  std::int64_t layout_ = 0;  // of the tensor that is read
  std::size_t source_ = 0;
};

}  // namespace lockstep::python
