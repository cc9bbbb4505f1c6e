// What lockstep/torch/lines.py gives to the extension module, and how the module calls Python.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <Python.h>
#include <lockstep.h>
#include <lockstep_lines.h>
#include <torch/csrc/Exceptions.h>

namespace lockstep::torch_lines {

/// Given by lines.py, once: functions of liblockstep, and callables.
struct Given {
  lockstep_lines* lines;
  decltype(&lockstep_lines_issue) issue;
  decltype(&lockstep_lines_issued) issued;
  decltype(&lockstep_lines_apart) apart;
  decltype(&lockstep_lines_in_flight) in_flight;
  decltype(&lockstep_lines_arrived) arrived;
  decltype(&lockstep_lines_take_from_any) take_from_any;
  decltype(&lockstep_wait_begin) wait_begin;
  decltype(&lockstep_wait_look) wait_look;
  decltype(&lockstep_wait_end) wait_end;
  decltype(&lockstep_issues) issues;
  decltype(&lockstep_fingerprint_of) fingerprint_of;
  /// The watched ranks (null: they have no group), and torch's name of their process group.
  lockstep_group* watching;
  std::string watched;
  /// (name, device, sender, receiver, tag) -> number of the group; -1: its operations are not
  /// compared
  PyObject* group;
  /// () -> the exception of the last error of this thread
  PyObject* error;
  /// (file name of a function) -> whether it is the user's
  PyObject* is_user;
  /// (a module of torch that is being called) -> "layers.3", its path in the outermost module; ""
  /// for the outermost one
  PyObject* module_path;
  /// ("all_reduce sum f32[4]", place): called before an operation of the watched thread on the
  /// watched process group if Marks::asks is set; if it raises, the operation is not issued
  PyObject* before;
  /// (): posts whether the program has threads that have issued nothing yet
  PyObject* threads;
  /// (): called when the count that `apart` returns has grown
  PyObject* apart_grows;
  /// () -> whether a peer is compiling, as far as is known
  PyObject* compiling;
};
inline Given given{};
/// False in a copy of the process (a data loader's), and after remove().
inline std::atomic<bool> is_on{false};

/// Counters and flags that watch.py also reads and writes.
struct Marks {
  std::atomic<int32_t> within{
      0};  // number of running calls of lockstep.torch: their operations are not noted
  std::atomic<int32_t> asks{0};    // not 0: Given::before is called before each operation
  std::atomic<int32_t> noted{0};   // number of notes that wait for the next vote
  std::atomic<int32_t> waits{0};   // 1: the watched thread is waiting, and wakes only to poll
  std::atomic<int32_t> votes{0};   // not 0: operations are noted, because ranks vote on them
  std::atomic<int32_t> audits{0};  // not 0: errors are not raised; Given::error logs them
  /// Seconds beyond its time-out for which an operation waits for ranks that compile.
  std::atomic<int32_t> patience{0};
};
inline Marks marks{};
inline std::atomic<std::thread::id> watched_thread;

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// True once Python is ending or has ended: its objects must not be touched.
inline std::atomic<bool> python_ends{false};

/// An exception of Python. The last reference may be dropped by a thread of torch after Python has
/// ended.
class Raised : public python_error {
 public:
  Raised() = default;
  Raised(const Raised&) = default;
  Raised(Raised&&) = default;
  Raised& operator=(const Raised&) = delete;
  Raised& operator=(Raised&&) = delete;
  ~Raised() override {
    if (python_ends || Py_IsInitialized() == 0) type = value = traceback = nullptr;
  }
};

/// Raises the exception that Python has set.
[[noreturn]] inline void raise_set() {
  Raised raised;
  raised.persist();
  throw raised;
}

/// Under audit, reports the error of this thread's last call of liblockstep and returns true. Else
/// returns false.
inline bool only_told() {
  if (marks.audits == 0) return false;
  const Gil gil;
  Py_XDECREF(PyObject_CallNoArgs(given.error));
  PyErr_Clear();
  return true;
}

/// Raises the error of this thread's last call of liblockstep.
[[noreturn]] inline void raise_last() {
  const Gil gil;
  PyObject* error = PyObject_CallNoArgs(given.error);
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  raise_set();
}

/// What is known of a code object. known_code() keeps the object alive, so that its address is not
/// reused.
struct KnownCode {
  struct Collective {
    std::string word, place;
  };
  bool is_user = false;
  bool calls_module = false;  // torch's Module._call_impl()
  std::string file;
  std::map<std::pair<int, std::string>, std::string> places;  // by line and path of the module
  std::vector<Collective> graph;  // collectives that the code runs, in order
};

inline std::string text_of(PyObject* text) {
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  PyErr_Clear();
  return bytes == nullptr ? std::string() : bytes;
}

inline KnownCode& known_code(PyObject* code) {
  static auto* known = new std::unordered_map<PyObject*, KnownCode>;  // under the GIL
  const auto found = known->find(code);
  if (found != known->end()) return found->second;
  PyObject* file = PyObject_GetAttrString(code, "co_filename");
  PyObject* user =
      file == nullptr ? nullptr : PyObject_CallFunctionObjArgs(given.is_user, file, nullptr);
  PyObject* function = PyObject_GetAttrString(code, "co_name");
  const std::string path = text_of(file);
  KnownCode made;
  made.is_user = user != nullptr && PyObject_IsTrue(user) == 1;
  made.calls_module =
      path.ends_with("/torch/nn/modules/module.py") && text_of(function) == "_call_impl";
  made.file = path.substr(path.rfind('/') + 1);
  Py_XDECREF(function);
  Py_XDECREF(user);
  Py_XDECREF(file);
  PyErr_Clear();
  Py_INCREF(code);
  return known->emplace(code, std::move(made)).first->second;
}

/// Returns the place of the operation `kind` that the graph of `code` issues in `frame`: that of
/// the graph's next collective of this kind. The search starts after the collective that was found
/// last in this frame, and continues at the graph's beginning. Null: the graph has no such
/// collective.
inline const char* place_in_graph(const KnownCode& code, const void* frame, std::string_view kind) {
  thread_local struct {
    const KnownCode* code = nullptr;
    const void* frame = nullptr;
    size_t next = 0;
  } run;
  if (run.code != &code || run.frame != frame) run = {&code, frame, 0};
  for (size_t i = 0; i < code.graph.size(); ++i) {
    const size_t at = (run.next + i) % code.graph.size();
    if (!code.graph[at].word.starts_with(kind)) continue;
    run.next = at + 1;
    return code.graph[at].place.c_str();
  }
  return nullptr;
}

/// Returns the path (Given::module_path) of the module that is called by `frame`, a frame of
/// Module._call_impl().
inline const std::string& module_path(PyFrameObject* frame) {
  struct Known {
    PyObject* module = nullptr;  // a weak reference
    std::string path;
  };
  static auto* known = new std::unordered_map<PyObject*, Known>;  // under the GIL
  static const std::string none;
  PyObject* locals = PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_locals");
  PyObject* module = locals == nullptr ? nullptr : PyMapping_GetItemString(locals, "self");
  Py_XDECREF(locals);
  if (module == nullptr) {
    PyErr_Clear();
    return none;
  }
  Known& found = (*known)[module];
  if (found.module == nullptr || PyWeakref_GetObject(found.module) != module) {
    PyObject* path = PyObject_CallFunctionObjArgs(given.module_path, module, nullptr);
    Py_XDECREF(found.module);
    found = {PyWeakref_NewRef(module, nullptr), text_of(path)};
    Py_XDECREF(path);
  }
  Py_DECREF(module);
  PyErr_Clear();
  return found.path;
}

/// Returns the place of an operation `kind` that is being issued, as "train.py:41 (layers.3)": the
/// innermost line of the user's code, and the innermost module that is being called. The text is
/// never freed.
inline const char* place(std::string_view kind) {
  constexpr int kFurther = 8;  // frames above the user's that are searched for the module's call
  const Gil gil;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  const char* out = nullptr;
  KnownCode* users = nullptr;
  const std::string* module = nullptr;
  int line = 0;
  for (int further = 0; frame != nullptr && further < kFurther;) {
    auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    KnownCode& known = known_code(code);
    Py_DECREF(code);
    if (users != nullptr) {
      ++further;
    } else {
      if (!known.graph.empty()) out = place_in_graph(known, frame, kind);
      if (out == nullptr && known.is_user) {
        users = &known;
        line = PyFrame_GetLineNumber(frame);
      }
    }
    if (module == nullptr && known.calls_module) module = &module_path(frame);
    if (out != nullptr || (users != nullptr && module != nullptr)) break;
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  if (out != nullptr) return out;
  if (users == nullptr) return "";
  std::string& text = users->places[{line, module == nullptr ? std::string() : *module}];
  if (text.empty()) {
    text = users->file + ":" + std::to_string(line);
    if (module != nullptr && !module->empty()) text += " (" + *module + ")";
  }
  return text.c_str();
}

/// True if a peer is compiling.
inline bool peer_compiles() {
  const Gil gil;
  PyObject* said = PyObject_CallNoArgs(given.compiling);
  const bool compiles = said != nullptr && PyObject_IsTrue(said) == 1;
  Py_XDECREF(said);
  PyErr_Clear();
  return compiles;
}

/// Calls a callable of lines.py for its effect; raises what the callable raises.
template <class... Arguments>
void call(PyObject* callable, const char* format, Arguments... arguments) {
  const Gil gil;
  PyObject* done = PyObject_CallFunction(callable, format, arguments...);
  if (done == nullptr) raise_set();
  Py_DECREF(done);
}

}  // namespace lockstep::torch_lines
