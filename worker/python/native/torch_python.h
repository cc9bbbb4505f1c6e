// What torch_lines.cpp is given by lockstep/torch/lines.py, and how it speaks to Python.
#pragma once

#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>

#include <Python.h>
#include <lockstep_lines.h>
#include <torch/csrc/Exceptions.h>

namespace lockstep::torch_lines {

/// What lines.py gives, once: functions of liblockstep, and callables.
struct Given {
  lockstep_lines* lines;
  decltype(&lockstep_lines_issue) issue;
  decltype(&lockstep_lines_issued) issued;
  decltype(&lockstep_wait_begin) wait_begin;
  decltype(&lockstep_wait_look) wait_look;
  decltype(&lockstep_wait_end) wait_end;
  /// (name, device, sender, receiver, tag) -> number of the group; -1: it is not watched
  PyObject* group;
  /// () -> the exception of the last error of this thread
  PyObject* error;
  /// (file name of a function) -> whether it is the user's
  PyObject* is_user;
  /// (name of the process group, "all_reduce sum f32[4]", place); what it raises is not issued
  PyObject* before;
  /// (): posts whether the program has threads that have issued nothing yet
  PyObject* threads;
};
inline Given given{};
/// False in a copy of the process (a data loader's), and after remove().
inline std::atomic<bool> is_on{false};

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Raises the exception that Python has set.
[[noreturn]] inline void raise_set() {
  python_error raised;
  raised.persist();
  throw raised;
}

/// Raises what this thread's last call of liblockstep has failed with.
[[noreturn]] inline void raise_last() {
  const Gil gil;
  PyObject* error = PyObject_CallNoArgs(given.error);
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  raise_set();
}

/// "train.py:41": the innermost line of the user's; by code object whether a function is one.
inline std::string place() {
  static std::unordered_map<PyObject*, std::pair<bool, std::string>> known;  // under the GIL
  const Gil gil;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  std::string out;
  while (frame != nullptr) {
    auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    auto found = known.find(code);
    if (found == known.end()) {
      PyObject* file = PyObject_GetAttrString(code, "co_filename");
      PyObject* user = file == nullptr ? nullptr : PyObject_CallOneArg(given.is_user, file);
      const char* path = file == nullptr ? nullptr : PyUnicode_AsUTF8(file);
      std::string name(path == nullptr ? "" : path);
      found = known
                  .emplace(code, std::pair(user != nullptr && PyObject_IsTrue(user) == 1,
                                           name.substr(name.rfind('/') + 1)))
                  .first;
      Py_INCREF(code);  // so that no other takes its address
      Py_XDECREF(user);
      Py_XDECREF(file);
      PyErr_Clear();
    }
    Py_DECREF(code);
    if (found->second.first) {
      out = found->second.second + ":" + std::to_string(PyFrame_GetLineNumber(frame));
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return out;
}

/// Calls a callable of lines.py for its effect; what it raises is raised here.
template <class... Arguments>
void call(PyObject* callable, const char* format, Arguments... arguments) {
  const Gil gil;
  PyObject* done = PyObject_CallFunction(callable, format, arguments...);
  if (done == nullptr) raise_set();
  Py_DECREF(done);
}

}  // namespace lockstep::torch_lines
