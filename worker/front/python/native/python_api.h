// Python's stable interface, which works with every version from 3.9 on, and owned references.
#pragma once

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <memory>

#include <Python.h>

namespace lockstep::python {

struct Release {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
/// An owned reference; null: a Python exception is set, unless documented otherwise.
using Owned = std::unique_ptr<PyObject, Release>;
inline Owned share(PyObject* object) {
  Py_XINCREF(object);
  return Owned(object);
}

}  // namespace lockstep::python
