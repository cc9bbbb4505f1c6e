// What Python passes to a function of liblockstep, and gets from it, by the types of the function's
// parameters:
//
//   int, uint64_t, double         a number. An int that does not fit becomes the nearest value of a
//                                 signed type (OverflowError beyond 64 bits), or the largest value
//                                 of an unsigned type
//   const char*                   a str, bytes, or None
//   lockstep_group* and the like  an address as an int, or None
//   lockstep_fingerprint          (high, low)
//   const X*, size_t              one argument: a sequence of X; for void: bytes
//   const X*                      a sequence; for a struct: a tuple of its fields in order, without
//                                 struct_size, in which a pointer and its count are one sequence
//   int*, lockstep_group**, …     no argument: part of the returned value
//   const void**, size_t*         no argument: bytes or None in the returned value
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "python_api.h"
#include <lockstep_controller.h>
#include <lockstep_lines.h>

namespace lockstep::python {

/// A parameter that Python passes. read() takes the value from an object (false: an exception is
/// set). get() returns what the function receives, valid while this parameter and the object live.
template <class T>
struct In;

template <std::signed_integral T>
struct In<T> {
  T value = 0;
  bool read(PyObject* object) {
    const long long whole = PyLong_AsLongLong(object);
    if (whole == -1 && PyErr_Occurred() != nullptr) return false;
    using Limits = std::numeric_limits<T>;
    value = static_cast<T>(std::clamp<long long>(whole, Limits::min(), Limits::max()));
    return true;
  }
  [[nodiscard]] T get() const { return value; }
};

template <std::unsigned_integral T>
struct In<T> {
  T value = 0;
  bool read(PyObject* object) {
    const unsigned long long whole = PyLong_AsUnsignedLongLong(object);
    value = static_cast<T>(std::min<unsigned long long>(whole, std::numeric_limits<T>::max()));
    if (PyErr_Occurred() == nullptr) return true;
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) return false;
    PyErr_Clear();  // the number is negative, or needs more bits
    value = std::numeric_limits<T>::max();
    return true;
  }
  [[nodiscard]] T get() const { return value; }
};

template <>
struct In<double> {
  double value = 0;
  bool read(PyObject* object) {
    value = PyFloat_AsDouble(object);
    return value != -1 || PyErr_Occurred() == nullptr;
  }
  [[nodiscard]] double get() const { return value; }
};

template <>
struct In<const char*> {
  // A copy, not Python's memory: it can be freed even when a thread is unwound because its
  // interpreter has ended.
  std::optional<std::string> text;
  bool read(PyObject* object) {
    text.reset();
    if (object == Py_None) return true;
    const Owned bytes(PyUnicode_Check(object) != 0
                          ? PyUnicode_AsEncodedString(object, "utf-8", "backslashreplace")
                          : share(object).release());
    const char* found = bytes ? PyBytes_AsString(bytes.get()) : nullptr;
    if (found != nullptr) text = found;
    return found != nullptr;
  }
  [[nodiscard]] const char* get() const { return text ? text->c_str() : nullptr; }
};

/// An address.
template <class T>
struct In<T*> {
  T* value = nullptr;
  bool read(PyObject* object) {
    if (object == Py_None) return true;
    value = static_cast<T*>(PyLong_AsVoidPtr(object));
    return value != nullptr || PyErr_Occurred() == nullptr;
  }
  [[nodiscard]] T* get() const { return value; }
};

/// Reads the fields of a tuple, one after the other.
class Fields {
 public:
  explicit Fields(PyObject* tuple) : tuple_(tuple) {}
  template <class... T>
  bool read(T&... fields) {
    const Py_ssize_t count = PySequence_Size(tuple_);
    if (count != static_cast<Py_ssize_t>(sizeof...(T))) {
      if (count >= 0)
        PyErr_Format(PyExc_TypeError, "a struct of %zd fields has %zd", sizeof...(T), count);
      return false;
    }
    return (next(fields) && ...);
  }

 private:
  template <class T>
  bool next(T& field) {
    const Owned item(PySequence_GetItem(tuple_, at_++));
    return item && field.read(item.get());
  }
  PyObject* tuple_;  // keeps the items alive
  Py_ssize_t at_ = 0;
};

template <>
struct In<lockstep_fingerprint> {
  In<std::uint64_t> high, low;
  bool read(PyObject* object) { return Fields(object).read(high, low); }
  [[nodiscard]] lockstep_fingerprint get() const { return {high.value, low.value}; }
};

/// A sequence that the function receives as an array of T.
template <class T>
struct Sequence {
  std::vector<In<T>> items;
  std::vector<T> values;
  bool read(PyObject* object) {
    const Py_ssize_t count = object == Py_None ? 0 : PySequence_Size(object);
    if (count < 0) return false;
    items = std::vector<In<T>>(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      const Owned item(PySequence_GetItem(object, i));  // the sequence keeps the item alive
      if (!item || !items[static_cast<std::size_t>(i)].read(item.get())) return false;
      values.push_back(items[static_cast<std::size_t>(i)].get());
    }
    return true;
  }
  [[nodiscard]] const T* get() const { return values.data(); }
  [[nodiscard]] std::size_t count() const { return values.size(); }
};

/// Bytes, or None.
template <>
struct Sequence<void> {
  const char* bytes = nullptr;
  Py_ssize_t size = 0;
  bool read(PyObject* object) {
    char* found = nullptr;
    if (object != Py_None && PyBytes_AsStringAndSize(object, &found, &size) != 0) return false;
    bytes = found;
    return true;
  }
  [[nodiscard]] const void* get() const { return bytes; }
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size); }
};

/// (dtype, sizes, bytes or an address)
template <>
struct In<lockstep_array> {
  In<int> dtype;
  Sequence<std::int64_t> sizes;
  const void* elements = nullptr;
  bool read(PyObject* object) {
    struct Elements {
      const void*& at;
      bool read(PyObject* given) {
        at = PyBytes_Check(given) != 0 ? PyBytes_AsString(given) : PyLong_AsVoidPtr(given);
        return at != nullptr || PyErr_Occurred() == nullptr;
      }
    } at{elements};
    return Fields(object).read(dtype, sizes, at);
  }
  [[nodiscard]] lockstep_array get() const {
    return {static_cast<lockstep_dtype>(dtype.value), static_cast<std::uint32_t>(sizes.count()),
            sizes.get(), elements};
  }
};

/// (name, kind, tensor, moved, integer, real)
template <>
struct In<lockstep_value> {
  In<const char*> name;
  In<int> kind, moved;
  In<lockstep_tensors*> tensor;
  In<std::int64_t> integer;
  In<double> real;
  bool read(PyObject* object) {
    return Fields(object).read(name, kind, tensor, moved, integer, real);
  }
  [[nodiscard]] lockstep_value get() const {
    return {name.get(),    static_cast<lockstep_kind>(kind.value),
            tensor.value,  moved.value,
            integer.value, real.value};
  }
};

/// A struct that a function reads through a pointer.
template <class T>
struct Struct;

template <>
struct Struct<lockstep_config> {
  lockstep_config value = LOCKSTEP_CONFIG_INIT;
  bool read(PyObject* object) {
    In<std::int32_t> consistency, automatic_dynamic, at_least_two, limit, settle;
    if (!Fields(object).read(consistency, automatic_dynamic, at_least_two, limit, settle))
      return false;
    value = {sizeof(value),      consistency.value, automatic_dynamic.value,
             at_least_two.value, limit.value,       settle.value};
    return true;
  }
  [[nodiscard]] const lockstep_config* get() const { return &value; }
};

template <>
struct Struct<lockstep_run> {
  In<std::int32_t> is_new, known;
  In<lockstep_fingerprint> program, collectives;
  In<const char*> program_text, collectives_text, trouble;
  lockstep_run value{};
  bool read(PyObject* object) {
    if (!Fields(object).read(is_new, program, known, collectives, program_text, collectives_text,
                             trouble))
      return false;
    value = {sizeof(value),     is_new.value,       program.get(),          known.value,
             collectives.get(), program_text.get(), collectives_text.get(), trouble.get()};
    return true;
  }
  [[nodiscard]] const lockstep_run* get() const { return &value; }
};

template <>
struct Struct<lockstep_operation> {
  In<const char*> kind, dtype, reduction, place;
  In<std::int32_t> root, needs, paired;
  Sequence<std::int64_t> elements, shape, to, from;
  lockstep_operation value{};
  bool read(PyObject* object) {
    if (!Fields(object).read(kind, dtype, reduction, place, root, needs, paired, elements, shape,
                             to, from))
      return false;
    const auto count = [](const auto& list) { return static_cast<std::uint32_t>(list.count()); };
    value = {.struct_size = sizeof(value),
             .kind = kind.get(),
             .dtype = dtype.get(),
             .reduction = reduction.get(),
             .place = place.get(),
             .root = root.value,
             .needs = needs.value,
             .paired = paired.value,
             .tensors = count(elements),
             .elements = elements.get(),
             .ndim = count(shape),
             .shape = shape.get(),
             .to_count = count(to),
             .from_count = count(from),
             .to = to.get(),
             .from = from.get()};
    return true;
  }
  [[nodiscard]] const lockstep_operation* get() const { return &value; }
};

// Returned values.

inline PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}
inline PyObject* give(double value) { return PyFloat_FromDouble(value); }
template <std::signed_integral T>
PyObject* give(T value) {
  return PyLong_FromLongLong(value);
}
template <std::unsigned_integral T>
PyObject* give(T value) {
  return PyLong_FromUnsignedLongLong(value);
}
inline PyObject* give(const char* text) {
  if (text == nullptr) return none();
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::char_traits<char>::length(text)),
                              "replace");
}
/// An address; 0: none.
template <class T>
PyObject* give(T* address) {
  return PyLong_FromVoidPtr(const_cast<std::remove_const_t<T>*>(address));
}
inline PyObject* give(lockstep_fingerprint of) { return Py_BuildValue("(KK)", of.high, of.low); }
inline PyObject* give_numbers(const std::int64_t* numbers, std::size_t count) {
  Owned out(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; out && i < count; ++i)
    if (PyTuple_SetItem(out.get(), static_cast<Py_ssize_t>(i), give(numbers[i])) != 0)
      return nullptr;
  return out.release();
}
inline PyObject* give(const lockstep_array& array) {
  return Py_BuildValue("(iNK)", static_cast<int>(array.dtype),
                       give_numbers(array.sizes, array.ndim),
                       reinterpret_cast<unsigned long long>(array.elements));
}
inline PyObject* give(const lockstep_told& told) {
  return Py_BuildValue("(KNNNNN)", told.times, give(told.kind), give(told.dtype),
                       give(told.reduction), give(told.place),
                       give_numbers(told.to, told.to_count));
}

/// A parameter that the function sets, and that is part of the value returned to Python.
template <class T>
struct Out {
  T value{};
  T* get() { return &value; }
};
template <>
struct Out<lockstep_told> {
  lockstep_told value{.struct_size = sizeof(lockstep_told),
                      .times = 0,
                      .kind = nullptr,
                      .dtype = nullptr,
                      .reduction = nullptr,
                      .place = nullptr,
                      .to_count = 0,
                      .to = nullptr};
  lockstep_told* get() { return &value; }
};

}  // namespace lockstep::python
