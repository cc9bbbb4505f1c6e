#include "plan.h"

#include <algorithm>
#include <utility>

namespace lockstep::python {
namespace {

Owned attribute(PyObject* object, const char* name) {
  return Owned(PyObject_GetAttrString(object, name));
}

/// Returns an attribute, or null without an exception.
Owned attribute_if(PyObject* object, const char* name) {
  Owned found = attribute(object, name);
  if (!found) PyErr_Clear();
  return found;
}

/// Returns a borrowed reference.
PyObject* part(PyObject* tree, Py_ssize_t i) { return PyTuple_GetItem(tree, i); }

const DlExchange* exchange_of(PyObject* type) {
  const Owned capsule = attribute_if(type, "__dlpack_c_exchange_api__");
  if (!capsule || !PyCapsule_IsValid(capsule.get(), kDlExchangeName)) return nullptr;
  const auto* found =
      static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.get(), kDlExchangeName));
  while (found != nullptr && found->major != kDlMajor) found = found->previous;
  return found != nullptr && found->tensor_from_object != nullptr ? found : nullptr;
}

bool row_major(const std::int64_t* sizes, const std::int64_t* strides, int ndim) {
  std::int64_t step = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    if (strides[d] != step) return false;
    step *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return true;
}

}  // namespace

std::int64_t layout_of(const std::int64_t* sizes, const std::int64_t* strides, int ndim) {
  constexpr int kMostDims = 9;
  if (ndim > kMostDims) return strides == nullptr || row_major(sizes, strides, ndim) ? 1 : 0;
  int order[kMostDims];
  for (int d = 0; d < ndim; ++d) order[d] = d;
  if (strides != nullptr && !row_major(sizes, strides, ndim)) {
    // Outermost first; among equal strides, the dim with more elements.
    std::stable_sort(order, order + ndim, [&](int a, int b) {
      return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] > sizes[b];
    });
    std::int64_t step = 1;
    for (int place = ndim - 1; place >= 0; --place) {
      if (strides[order[place]] != step) return 0;
      step *= sizes[order[place]] > 1 ? sizes[order[place]] : 1;
    }
  }
  std::int64_t code = 0;
  for (int place = 0; place < ndim; ++place) code = code * 10 + order[place] + 1;
  return code;
}

bool append_integers(PyObject* sequence, std::vector<std::int64_t>& out) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Owned item(PySequence_GetItem(sequence, i));
    if (!item) return false;
    const long long value = PyLong_AsLongLong(item.get());
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    out.push_back(value);
  }
  return true;
}

std::unique_ptr<Plan> Plan::make(PyObject* tree, void* observation, const Functions& functions) {
  auto plan = std::make_unique<Plan>();
  if (!learn(tree, plan->root_)) return nullptr;
  plan->observation_ = observation;
  plan->functions_ = functions;
  return plan;
}

/// `tree` is (kind, example or type, …). "tensor": the example, its dtype, and whether
/// requires_grad, the dtype and the layout are sources of their own. "int", "float", "bool": the
/// type. "same": type and value. "items": type and (child…). "keys", "fields": type and
/// ((key, child)…).
bool Plan::learn(PyObject* tree, Node& node) {
  static constexpr std::pair<const char*, Kind> kKinds[] = {
      {"tensor", Kind::Tensor}, {"int", Kind::Int},      {"float", Kind::Float},
      {"bool", Kind::Bool},     {"same", Kind::Same},    {"items", Kind::Items},
      {"keys", Kind::Keys},     {"fields", Kind::Fields}};
  PyObject* word = part(tree, 0);
  if (word == nullptr) return false;
  bool known = false;
  for (const auto& [name, kind] : kKinds)
    if (PyUnicode_CompareWithASCIIString(word, name) == 0) node.kind = kind, known = true;
  if (!known || PyTuple_Size(tree) < 2) {
    PyErr_SetString(PyExc_ValueError, "this is no plan");
    return false;
  }
  if (node.kind == Kind::Tensor) return learn_tensor(tree, node);
  node.type = share(part(tree, 1));
  if (PyTuple_Size(tree) < 3) return true;
  PyObject* rest = part(tree, 2);
  if (node.kind == Kind::Same) {
    node.value = share(rest);
    return true;
  }
  const Py_ssize_t count = PyTuple_Size(rest);
  if (count < 0) return false;
  node.children.resize(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    Node& child = node.children[static_cast<std::size_t>(i)];
    PyObject* own = part(rest, i);
    if (node.kind != Kind::Items) {
      if (own == nullptr || PyTuple_Size(own) != 2) return false;
      child.key = share(part(own, 0));
      own = part(own, 1);
    }
    if (own == nullptr || !learn(own, child)) return false;
  }
  return true;
}

bool Plan::learn_tensor(PyObject* tree, Node& node) {
  PyObject* example = part(tree, 1);
  node.type = share(reinterpret_cast<PyObject*>(Py_TYPE(example)));
  node.value = share(part(tree, 2));
  const Owned shape = attribute(example, "shape");
  if (!shape) return false;
  node.ndim = static_cast<int>(PySequence_Size(shape.get()));
  if (node.ndim < 0) return false;
  if (const Owned strides = attribute_if(example, "strides");
      strides && PyCallable_Check(strides.get()) == 0)
    node.strides = Owned(PyUnicode_FromString("strides"));
  else if (const Owned method = attribute_if(example, "stride"); method) {
    node.strides = Owned(PyUnicode_FromString("stride"));
    node.strides_called = true;
  }
  if (PyTuple_Size(tree) > 3 && part(tree, 3) == Py_True)
    node.grad = Owned(PyUnicode_FromString("requires_grad"));
  node.named_dtype = PyTuple_Size(tree) > 4 && part(tree, 4) == Py_True;
  node.ordered = PyTuple_Size(tree) > 5 && part(tree, 5) == Py_True;
  node.exchange = exchange_of(node.type.get());
  DlTensor seen{};
  if (node.exchange != nullptr && node.exchange->tensor_from_object(example, &seen) != 0) {
    PyErr_Clear();
    node.exchange = nullptr;
  }
  node.dl_type = seen.dtype;
  return true;
}

int Plan::read(PyObject* value) {
  values_.clear();
  strided_.clear();
  source_ = 0;
  if (!follow(root_, value)) {
    PyErr_Clear();
    return kOther;
  }
  if (const int code = functions_.set_all(observation_, values_.data(), values_.size()); code != 0)
    return code;
  for (const Strided& tensor : strided_)
    if (const int code = functions_.set_sizes(observation_, tensor.source, &values_[tensor.at],
                                              tensor.strides.data());
        code != 0)
      return code;
  return 0;
}

bool Plan::follow(const Node& node, PyObject* value) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != node.type.get()) return false;
  switch (node.kind) {
    case Kind::Tensor:
      return tensor(node, value);
    case Kind::Int:
      return integer(value);
    case Kind::Float:
      ++source_;
      return true;
    case Kind::Bool:
      values_.push_back(value == Py_True ? 1 : 0);
      ++source_;
      return true;
    case Kind::Same:
      ++source_;
      return PyObject_RichCompareBool(value, node.value.get(), Py_EQ) == 1;
    case Kind::Items: {
      const auto count = static_cast<Py_ssize_t>(node.children.size());
      if (PySequence_Size(value) != count) return false;
      for (Py_ssize_t i = 0; i < count; ++i) {
        const Owned item(PySequence_GetItem(value, i));
        if (!item || !follow(node.children[static_cast<std::size_t>(i)], item.get())) return false;
      }
      return true;
    }
    case Kind::Keys:
      if (PyDict_Size(value) != static_cast<Py_ssize_t>(node.children.size())) return false;
      for (const Node& child : node.children) {
        const Owned item = share(PyDict_GetItemWithError(value, child.key.get()));
        if (!item || !follow(child, item.get())) return false;
      }
      return true;
    case Kind::Fields:
      for (const Node& child : node.children) {
        const Owned item(PyObject_GetAttr(value, child.key.get()));
        if (!item || !follow(child, item.get())) return false;
      }
      return true;
  }
  return false;
}

bool Plan::integer(PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return false;
  values_.push_back(number);
  ++source_;
  return true;
}

bool Plan::tensor(const Node& node, PyObject* value) {
  DlTensor seen{};
  if (node.exchange == nullptr) {
    if (!tensor_by_attributes(node, value)) return false;
  } else if (node.exchange->tensor_from_object(value, &seen) != 0) {
    PyErr_Clear();  // some versions of DLPack refuse a tensor that requires a gradient
    if (!tensor_by_attributes(node, value)) return false;
  } else {
    if (seen.ndim != node.ndim || !(seen.dtype == node.dl_type)) return false;
    values_.insert(values_.end(), seen.shape, seen.shape + seen.ndim);
    note_strides(node, seen.strides);
    ++source_;
  }
  if (node.named_dtype) ++source_;
  if (node.grad && !gradient(node, value)) return false;
  if (node.ordered) {
    values_.push_back(layout_);
    ++source_;
  }
  return true;
}

bool Plan::gradient(const Node& node, PyObject* value) {
  const Owned needed(PyObject_GetAttr(value, node.grad.get()));
  if (!needed || PyBool_Check(needed.get()) == 0) return false;
  values_.push_back(needed.get() == Py_True ? 1 : 0);
  ++source_;
  return true;
}

bool Plan::tensor_by_attributes(const Node& node, PyObject* value) {
  const Owned dtype = attribute(value, "dtype");
  if (!dtype) return false;
  if (dtype.get() != node.value.get() &&
      PyObject_RichCompareBool(dtype.get(), node.value.get(), Py_EQ) != 1)
    return false;
  const Owned shape = attribute(value, "shape");
  const std::size_t before = values_.size();
  if (!shape || !append_integers(shape.get(), values_)) return false;
  if (values_.size() - before != static_cast<std::size_t>(node.ndim)) return false;
  if (node.strides && node.ndim > 0) {
    Owned strides(PyObject_GetAttr(value, node.strides.get()));
    if (strides && node.strides_called)
      strides = Owned(PyObject_CallFunctionObjArgs(strides.get(), nullptr));
    room_.clear();
    if (!strides || !append_integers(strides.get(), room_) ||
        room_.size() != static_cast<std::size_t>(node.ndim))
      return false;
    if (!node.strides_called) {
      const Owned item = attribute(value, "itemsize");
      const long long bytes = item ? PyLong_AsLongLong(item.get()) : -1;
      if (bytes < 0) return false;
      for (std::int64_t& stride : room_) stride /= bytes > 1 ? bytes : 1;
    }
    note_strides(node, room_.data());
  }
  ++source_;
  return true;
}

void Plan::note_strides(const Node& node, const std::int64_t* strides) {
  const std::size_t at = values_.size() - static_cast<std::size_t>(node.ndim);
  if (node.ordered) layout_ = layout_of(values_.data() + at, strides, node.ndim);
  if (strides != nullptr && node.ndim > 0 && !row_major(&values_[at], strides, node.ndim))
    strided_.push_back({source_, at, {strides, strides + node.ndim}});
}

}  // namespace lockstep::python
