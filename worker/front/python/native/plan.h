// Plans: how the inputs of one call site are read. A plan is made once from an example and followed
// on every call. On each call it tests all that it knows of a value (types, keys, dtypes, numbers
// of dims), so a value of another structure is never mistaken for one like the example.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpack.h"
#include "python_api.h"

namespace lockstep::python {

/// The functions of liblockstep that a plan calls (lockstep.h), by address, because the package
/// loads the library.
struct Functions {
  int (*set_all)(void* observation, const std::int64_t* values, std::size_t count) = nullptr;
  int (*set_sizes)(void* observation, std::size_t source, const std::int64_t* sizes,
                   const std::int64_t* strides) = nullptr;
};

/// Returns the order of a tensor's dims in memory, as decimal digits: the dims, counted from 1,
/// from the outermost to the innermost. A contiguous tensor of 4 dims has 1234, images with
/// channels last 1342. A tensor with gaps between elements, or with elements that overlap, has 0. A
/// tensor of more than 9 dims has 1 if it is contiguous, else 0. `strides`: in elements; null:
/// contiguous.
[[nodiscard]] std::int64_t layout_of(const std::int64_t* sizes, const std::int64_t* strides,
                                     int ndim);
/// Appends the items of a sequence of integers to `out`. False: a Python exception is set.
[[nodiscard]] bool append_integers(PyObject* sequence, std::vector<std::int64_t>& out);

class Plan {
 public:
  /// `tree` describes the example, as call_site.py's plan_of() writes it; `observation` is the
  /// library's handle, with sources declared in the order of the tree. Null: a Python exception is
  /// set.
  [[nodiscard]] static std::unique_ptr<Plan> make(PyObject* tree, void* observation,
                                                  const Functions& functions);
  /// Reads `value` into the observation. Returns kOther if it has another structure than the
  /// example, else a code of the library. Leaves no exception set.
  [[nodiscard]] int read(PyObject* value);
  static constexpr int kOther = -1;

 private:
  enum class Kind : std::uint8_t { Tensor, Int, Float, Bool, Same, Items, Keys, Fields };
  struct Node {
    Kind kind = Kind::Same;
    Owned type;                  // the exact type of the value
    Owned key;                   // the key, or the field's name, by which its container holds it
    Owned value;                 // Same: the value that it must equal; Tensor: its dtype
    std::vector<Node> children;  // Items, Keys, Fields
    int ndim = 0;
    const DlExchange* exchange = nullptr;  // null: sizes are read from attributes
    DlType dl_type{};
    Owned strides;                // the attribute's name; null: no strides
    bool strides_called = false;  // strides are a method, in elements; else an attribute, in bytes
    bool named_dtype = false;     // the dtype is a source of its own, without a value
    bool ordered = false;         // the order of the dims is a source of its own
    Owned grad;  // name of the attribute requires_grad, a source of its own; null: no such source
  };
  struct Strided {
    std::size_t source, at;  // number of the source; index of its sizes in values_
    std::vector<std::int64_t> strides;
  };
  [[nodiscard]] static bool learn(PyObject* tree, Node& node);
  [[nodiscard]] static bool learn_tensor(PyObject* tree, Node& node);
  [[nodiscard]] bool follow(const Node& node, PyObject* value);
  [[nodiscard]] bool tensor(const Node& node, PyObject* value);
  [[nodiscard]] bool tensor_by_attributes(const Node& node, PyObject* value);
  [[nodiscard]] bool gradient(const Node& node, PyObject* value);
  /// Notes the strides of the tensor whose sizes were appended to values_ last. `strides`: null:
  /// contiguous.
  void note_strides(const Node& node, const std::int64_t* strides);
  [[nodiscard]] bool integer(PyObject* value);

  Node root_;
  void* observation_ = nullptr;
  Functions functions_;
  // What read() has collected so far.
  std::vector<std::int64_t> values_;
  std::vector<Strided> strided_;
  std::vector<std::int64_t> room_;
  std::int64_t layout_ = 0;  // layout_of() the tensor that was read last
  std::size_t source_ = 0;
};

}  // namespace lockstep::python
