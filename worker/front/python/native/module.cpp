// The extension module lockstep._native: the functions of liblockstep, plans, and callbacks for
// callers that cannot handle an exception.
#include "arguments.h"
#include "library.h"
#include "plan.h"
#include "words.h"

namespace {

using lockstep::python::Functions;
using lockstep::python::Owned;
using lockstep::python::Plan;

/// Functions of the loaded library, or those that a test has bound.
Functions functions;

template <class F>
bool address(PyObject* number, F& out) {
  void* found = PyLong_AsVoidPtr(number);
  if (found == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "an address is null");
    return false;
  }
  out = reinterpret_cast<F>(found);
  return true;
}

PyObject* bind(PyObject*, PyObject* arguments) {
  PyObject *all = nullptr, *sizes = nullptr;
  if (PyArg_ParseTuple(arguments, "OO:bind", &all, &sizes) == 0) return nullptr;
  if (!address(all, functions.set_all) || !address(sizes, functions.set_sizes)) return nullptr;
  Py_RETURN_NONE;
}

template <class F>
F function_named(const char* name, F) {
  return reinterpret_cast<F>(lockstep::python::loaded(name));
}

PyObject* load(PyObject*, PyObject* arguments) {
  const char* path = nullptr;
  if (PyArg_ParseTuple(arguments, "y:load", &path) == 0) return nullptr;
  PyObject* made = lockstep::python::load(path);
  if (made == nullptr) return nullptr;
  functions = {function_named("set_all", functions.set_all),
               function_named("set_sizes", functions.set_sizes)};
  return made;
}

/// The build callback. `context` is the Python callable: (entry, decision, built) -> the program's
/// fingerprint, () for no fingerprint, or None if the build failed. The callable must not raise.
int build(void* context, int entry, const lockstep_decision* decision,
          lockstep_fingerprint* program, lockstep_built* built) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject* made = PyObject_CallFunction(static_cast<PyObject*>(context), "iKK", entry,
                                         reinterpret_cast<unsigned long long>(decision),
                                         reinterpret_cast<unsigned long long>(built));
  bool fails = made == nullptr || made == Py_None;
  if (!fails && PyTuple_Size(made) != 0) {
    unsigned long long high = 0, low = 0;
    fails = PyArg_ParseTuple(made, "KK", &high, &low) == 0;
    *program = {high, low};
  }
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(static_cast<PyObject*>(context));
  Py_XDECREF(made);
  PyGILState_Release(state);
  return fails ? 1 : 0;
}

/// agree(agreement, frame, observation, untested, build) -> (code, entry, is_new, decision,
/// untested). Other threads of Python run while this function waits.
PyObject* agree(PyObject*, PyObject* arguments) {
  unsigned long long agreement = 0, observation = 0;
  const char* frame = nullptr;
  PyObject* callable = nullptr;
  int untested = 0;
  if (PyArg_ParseTuple(arguments, "KyKpO:agree", &agreement, &frame, &observation, &untested,
                       &callable) == 0)
    return nullptr;
  static const auto function = function_named("agree_tested", &lockstep_agree_tested);
  int entry = -1, is_new = 0, code = 0;
  const lockstep_decision* decision = nullptr;
  Py_BEGIN_ALLOW_THREADS code = function(reinterpret_cast<lockstep_agreement*>(agreement), frame,
                                         reinterpret_cast<lockstep_observation*>(observation),
                                         &untested, build, callable, &entry, &is_new, &decision);
  Py_END_ALLOW_THREADS return Py_BuildValue(
      "iiiKi", code, entry, is_new, reinterpret_cast<unsigned long long>(decision), untested);
}

/// Asks the Python callable `context` whether a wait has to end. An exception of the callable ends
/// the wait, too.
int interrupted(void* context) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const Owned said(PyObject_CallFunctionObjArgs(static_cast<PyObject*>(context), nullptr));
  const int ends = said ? PyObject_IsTrue(said.get()) : -1;
  if (ends < 0) PyErr_WriteUnraisable(static_cast<PyObject*>(context));
  PyGILState_Release(state);
  return ends == 0 ? 0 : 1;
}

/// connect(where, seconds, interrupted) -> (code, controller). `interrupted` must outlive the
/// controller.
PyObject* connect(PyObject*, PyObject* arguments) {
  PyObject *place = nullptr, *callable = nullptr;
  double seconds = 0;
  lockstep::python::In<const char*> where;
  if (PyArg_ParseTuple(arguments, "OdO:connect", &place, &seconds, &callable) == 0 ||
      !where.read(place))
    return nullptr;
  static const auto function = function_named("controller_connect", &lockstep_controller_connect);
  lockstep_controller* controller = nullptr;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS code = function(where.get(), seconds, interrupted, callable, &controller);
  Py_END_ALLOW_THREADS return Py_BuildValue("iK", code,
                                            reinterpret_cast<unsigned long long>(controller));
}

PyObject* bytes_at(PyObject*, PyObject* arguments) {
  unsigned long long from = 0;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "Kn:bytes_at", &from, &size) == 0) return nullptr;
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(from), from == 0 ? 0 : size);
}

PyObject* layout(PyObject*, PyObject* arguments) {
  PyObject *sizes = nullptr, *strides = nullptr;
  std::vector<std::int64_t> size, stride;
  if (PyArg_ParseTuple(arguments, "OO:layout_of", &sizes, &strides) == 0 ||
      !lockstep::python::append_integers(sizes, size) ||
      !lockstep::python::append_integers(strides, stride))
    return nullptr;
  if (size.size() != stride.size()) {
    PyErr_SetString(PyExc_ValueError, "as many strides as sizes are needed");
    return nullptr;
  }
  return PyLong_FromLongLong(
      lockstep::python::layout_of(size.data(), stride.data(), static_cast<int>(size.size())));
}

struct PlanObject {
  PyObject_HEAD Plan* plan;
};

PyObject* plan_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *tree = nullptr, *observation = nullptr;
  if (PyArg_ParseTuple(arguments, "OO:Plan", &tree, &observation) == 0) return nullptr;
  void* handle = nullptr;
  if (functions.set_all == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "load() has not been called");
    return nullptr;
  }
  if (!address(observation, handle)) return nullptr;
  auto plan = Plan::make(tree, handle, functions);
  if (!plan) return nullptr;
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto* self = reinterpret_cast<PlanObject*>(allocate(type, 0));
  if (self != nullptr) self->plan = plan.release();
  return reinterpret_cast<PyObject*>(self);
}

void plan_free(PyObject* self) {
  delete reinterpret_cast<PlanObject*>(self)->plan;
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* plan_read(PyObject* self, PyObject* value) {
  return PyLong_FromLong(reinterpret_cast<PlanObject*>(self)->plan->read(value));
}

PyMethodDef plan_methods[] = {
    {"read", plan_read, METH_O,
     "Reads a value into the observation: -1 where it has another structure, else a code."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot plan_slots[] = {{Py_tp_new, reinterpret_cast<void*>(plan_new)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(plan_free)},
                            {Py_tp_methods, plan_methods},
                            {0, nullptr}};
PyType_Spec plan_spec = {"lockstep._native.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT,
                         plan_slots};

/// Calls `function` and returns the bool that it returns. If `function` returns the class of an
/// exception instead, returns True, and the thread raises that class, without an argument, when it
/// next runs Python code.
PyObject* answer(PyObject* function, PyObject* argument) {
  PyObject* said = PyObject_CallFunctionObjArgs(function, argument, nullptr);
  if (said == nullptr && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
    PyErr_Clear();
    said = PyExc_KeyboardInterrupt;
    Py_INCREF(said);
  }
  if (said == nullptr) {
    PyErr_WriteUnraisable(function);
    Py_RETURN_TRUE;
  }
  if (PyBool_Check(said) != 0) return said;
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), said);
  Py_DECREF(said);
  Py_RETURN_TRUE;
}

PyMethodDef answer_method = {"answering", answer, METH_O, nullptr};

PyObject* answering(PyObject*, PyObject* function) {
  return PyCFunction_New(&answer_method, function);
}

PyMethodDef methods[] = {
    {"load", load, METH_VARARGS, "The functions of the library at a path."},
    {"bind", bind, METH_VARARGS,
     "Addresses of set_all() and set_sizes() in place of the library's."},
    {"agree", agree, METH_VARARGS, "lockstep_agree_tested()."},
    {"agree_words", lockstep::python::agree_words, METH_VARARGS, lockstep::python::kAgreeWords},
    {"agree_words_ahead", lockstep::python::agree_words_ahead, METH_VARARGS,
     lockstep::python::kAgreeWordsAhead},
    {"connect", connect, METH_VARARGS, "lockstep_controller_connect()."},
    {"bytes_at", bytes_at, METH_VARARGS, "So many bytes from an address on."},
    {"layout_of", layout, METH_VARARGS,
     "The order of a tensor's dims in memory, of its sizes and strides (plan.h)."},
    {"answering", answering, METH_O,
     "A function of one argument for callers that can take no exception: "
     "where the given one returns an exception's class in place of a bool, it "
     "returns True, and the class is raised at the thread's next Python code."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "lockstep._native",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  PyObject* made = PyModule_Create(&module);
  if (made == nullptr) return nullptr;
  PyObject* type = PyType_FromSpec(&plan_spec);
  if (type == nullptr || PyModule_AddObject(made, "Plan", type) != 0) {
    Py_XDECREF(type);
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}
