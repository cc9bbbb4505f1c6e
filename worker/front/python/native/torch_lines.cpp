// The extension module lockstep.torch._lines ("the part"), built for one release of torch by
// scripts/torch-lines and loaded by lockstep/torch/part.py, which documents its functions.
#include "torch_kernels.h"

namespace lockstep::torch_lines {
namespace {

Kernels* kernels = nullptr;  // not destroyed at the end of the process

/// Sets `function` to the address of a function in `library`, the namespace of
/// lockstep/_library.py. False: there is no such function.
template <class F>
bool take(PyObject* library, const char* name, F& function) {
  PyObject* callable = PyObject_GetAttrString(library, name);
  PyObject* address = callable == nullptr ? nullptr : PyObject_GetAttrString(callable, "__self__");
  Py_XDECREF(callable);
  if (address == nullptr) return false;
  function = reinterpret_cast<F>(PyLong_AsVoidPtr(address));
  Py_DECREF(address);
  return function != nullptr;
}

/// Begins to post operations.
PyObject* install(PyObject*, PyObject* arguments) {
  Given made{};
  PyObject* library = nullptr;
  unsigned long long lines = 0, watching = 0;
  const char* watched = nullptr;
  PyObject** const callables[] = {&made.group,  &made.error,   &made.is_user,     &made.module_path,
                                  &made.before, &made.threads, &made.apart_grows, &made.compiling};
  if (PyArg_ParseTuple(arguments, "OKKsOOOOOOOO:install", &library, &lines, &watching, &watched,
                       callables[0], callables[1], callables[2], callables[3], callables[4],
                       callables[5], callables[6], callables[7]) == 0 ||
      !take(library, "lines_issue", made.issue) || !take(library, "lines_issued", made.issued) ||
      !take(library, "lines_apart", made.apart) ||
      !take(library, "lines_in_flight", made.in_flight) ||
      !take(library, "lines_arrived", made.arrived) ||
      !take(library, "lines_take_from_any", made.take_from_any) ||
      !take(library, "wait_begin", made.wait_begin) ||
      !take(library, "wait_look", made.wait_look) || !take(library, "wait_end", made.wait_end) ||
      !take(library, "issues", made.issues) ||
      !take(library, "fingerprint_of", made.fingerprint_of))
    return nullptr;
  made.lines = reinterpret_cast<lockstep_lines*>(lines);
  made.watching = reinterpret_cast<lockstep_group*>(watching);
  made.watched = watched;
  for (PyObject** callable : callables) Py_INCREF(*callable);
  given = std::move(made);
  notes.begin();
  kernels = new Kernels;
  python_ends = false;
  is_on = true;
  Py_RETURN_NONE;
}

PyObject* forget(PyObject*, PyObject*) {
  is_on = false;
  Py_RETURN_NONE;
}

PyObject* end(PyObject*, PyObject*) {
  is_on = false;
  python_ends = true;
  Py_BEGIN_ALLOW_THREADS;
  Futures::of_process().end();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* remove(PyObject* self, PyObject*) {
  is_on = false;
  delete kernels;
  kernels = nullptr;
  return end(self, nullptr);
}

PyObject* runs_graph(PyObject*, PyObject* arguments) {
  PyObject *code = nullptr, *collectives = nullptr;
  if (PyArg_ParseTuple(arguments, "OO!:runs_graph", &code, &PyList_Type, &collectives) == 0)
    return nullptr;
  std::vector<KnownCode::Collective> graph;
  for (Py_ssize_t i = 0; i < PyList_Size(collectives); ++i) {
    const char *word = nullptr, *place = nullptr;
    if (PyArg_ParseTuple(PyList_GetItem(collectives, i), "ss:a collective", &word, &place) == 0)
      return nullptr;
    graph.push_back({word, place});
  }
  if (!graph.empty()) known_code(code).graph = std::move(graph);
  Py_RETURN_NONE;
}

PyObject* noted(PyObject*, PyObject*) {
  const auto lines = notes.lines();
  PyObject* out = PyList_New(static_cast<Py_ssize_t>(lines.size()));
  for (size_t i = 0; out != nullptr && i < lines.size(); ++i)
    PyList_SetItem(
        out, static_cast<Py_ssize_t>(i),
        PyUnicode_DecodeUTF8(lines[i].data(), static_cast<Py_ssize_t>(lines[i].size()), "replace"));
  return out;
}

PyObject* clear(PyObject*, PyObject*) {
  notes.clear();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, nullptr}, {"notes", noted, METH_NOARGS, nullptr},
    {"clear", clear, METH_NOARGS, nullptr},      {"runs_graph", runs_graph, METH_VARARGS, nullptr},
    {"forget", forget, METH_NOARGS, nullptr},    {"end", end, METH_NOARGS, nullptr},
    {"remove", remove, METH_NOARGS, nullptr},    {nullptr, nullptr, 0, nullptr}};

PyObject* get_mark(PyObject*, void* mark) {
  return PyLong_FromLong(*static_cast<std::atomic<int32_t>*>(mark));
}
int set_mark(PyObject*, PyObject* value, void* mark) {
  const long number = value == nullptr ? 0 : PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) return -1;
  *static_cast<std::atomic<int32_t>*>(mark) = static_cast<int32_t>(number);
  return 0;
}
PyGetSetDef mark_of(const char* name, std::atomic<int32_t>& mark) {
  return {name, get_mark, set_mark, nullptr, &mark};
}

/// Returns an object whose attributes are `marks`.
PyObject* marks_object() {
  static PyGetSetDef attributes[] = {
      mark_of("within", marks.within),     mark_of("asks", marks.asks),
      mark_of("noted", marks.noted),       mark_of("waits", marks.waits),
      mark_of("votes", marks.votes),       mark_of("audits", marks.audits),
      mark_of("patience", marks.patience), PyGetSetDef{}};
  static PyType_Slot slots[] = {{Py_tp_getset, attributes}, {0, nullptr}};
  static PyType_Spec spec = {"lockstep.torch._lines.Marks", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  PyObject* type = PyType_FromSpec(&spec);
  PyObject* made = type == nullptr ? nullptr : PyObject_CallNoArgs(type);
  Py_XDECREF(type);
  return made;
}

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "lockstep.torch._lines",
                      nullptr,
                      -1,
                      functions,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace
}  // namespace lockstep::torch_lines

PyMODINIT_FUNC PyInit__lines() {
  PyObject* made = PyModule_Create(&lockstep::torch_lines::module);
  PyObject* marks = made == nullptr ? nullptr : lockstep::torch_lines::marks_object();
  if (marks != nullptr && PyModule_AddObject(made, "marks", marks) == 0) return made;
  Py_XDECREF(marks);
  Py_XDECREF(made);
  return nullptr;
}
