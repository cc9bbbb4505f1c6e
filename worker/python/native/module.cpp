// The extension module lockstep._native: plans, the call of agree() without ctypes, and answers to
// callers that can take no exception.
#include "plan.h"

namespace {

using lockstep::python::Functions;
using lockstep::python::Plan;

using Build = int (*)(void* context, int entry, const void* decision, void* program, void* built);
using Agree = int (*)(void* agreement, const char* frame, const void* observation, int* untested,
                      Build build, void* context, int* entry, int* is_new, const void** decision);

/// Set once, by bind().
Functions functions;
Agree agree_function = nullptr;

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
  PyObject *all = nullptr, *sizes = nullptr, *agree = nullptr;
  if (PyArg_ParseTuple(arguments, "OOO:bind", &all, &sizes, &agree) == 0) return nullptr;
  if (!address(all, functions.set_all) || !address(sizes, functions.set_sizes) ||
      !address(agree, agree_function))
    return nullptr;
  Py_RETURN_NONE;
}

/// `context` is the Python callable. It raises nothing: it keeps what went wrong and returns 1.
int build(void* context, int entry, const void* decision, void* program, void* built) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const auto pointer = [](const void* p) { return reinterpret_cast<unsigned long long>(p); };
  PyObject* result = PyObject_CallFunction(static_cast<PyObject*>(context), "iKKK", entry,
                                           pointer(decision), pointer(program), pointer(built));
  long code = result == nullptr ? -1 : PyLong_AsLong(result);
  if (PyErr_Occurred() != nullptr) {
    PyErr_WriteUnraisable(static_cast<PyObject*>(context));
    code = 1;
  }
  Py_XDECREF(result);
  PyGILState_Release(state);
  return static_cast<int>(code);
}

/// agree(agreement, frame, observation, untested, build) -> (code, entry, is_new, decision,
/// untested). Other threads of Python run while it waits.
PyObject* agree(PyObject*, PyObject* arguments) {
  unsigned long long agreement = 0, observation = 0;
  const char* frame = nullptr;
  PyObject* callable = nullptr;
  int untested = 0;
  if (PyArg_ParseTuple(arguments, "KyKpO:agree", &agreement, &frame, &observation, &untested,
                       &callable) == 0)
    return nullptr;
  if (agree_function == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "bind() has not been called");
    return nullptr;
  }
  int entry = -1, is_new = 0, code = 0;
  const void* decision = nullptr;
  Py_BEGIN_ALLOW_THREADS
  code = agree_function(reinterpret_cast<void*>(agreement), frame,
                        reinterpret_cast<void*>(observation), &untested, build, callable, &entry,
                        &is_new, &decision);
  Py_END_ALLOW_THREADS
  return Py_BuildValue("iiiKi", code, entry, is_new,
                       reinterpret_cast<unsigned long long>(decision), untested);
}

struct PlanObject {
  PyObject_HEAD
  Plan* plan;
};

PyObject* plan_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *tree = nullptr, *observation = nullptr;
  if (PyArg_ParseTuple(arguments, "OO:Plan", &tree, &observation) == 0) return nullptr;
  void* handle = nullptr;
  if (functions.set_all == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "bind() has not been called");
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

/// `function` is called; what it returns that is no bool is an exception's class, which the thread
/// raises where it next runs Python code, without an argument.
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

PyMethodDef methods[] = {{"bind", bind, METH_VARARGS, "Takes addresses of the library's functions."},
                         {"agree", agree, METH_VARARGS, "lockstep_agree_tested()."},
                         {"answering", answering, METH_O,
                          "A function of one argument for callers that can take no exception: "
                          "where the given one returns an exception's class in place of a bool, it "
                          "returns True, and the class is raised at the thread's next Python code."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "lockstep._native", nullptr, -1,     methods, nullptr,
                      nullptr,               nullptr,            nullptr};

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
