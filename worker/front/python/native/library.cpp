// Python's macros, and a table, are formatted by hand.
// clang-format off
#include "library.h"

#include <dlfcn.h>

#include <array>
#include <tuple>
#include <utility>

#include "arguments.h"

namespace lockstep::python {
namespace {

/// The library that was loaded last.
void* library = nullptr;

void* function_of(void* of, const char* name) {
  return dlsym(of, (std::string("lockstep_") + name).c_str());
}

template <class T>
struct Nothing {};  // in place of a parameter before the first and after the last

template <std::size_t I, class... A>
using At = std::tuple_element_t<I, std::tuple<Nothing<void>, A..., Nothing<int>>>;

template <class T>
constexpr bool kIsList =
    std::is_pointer_v<T> && std::is_const_v<std::remove_pointer_t<T>> &&
    (std::is_void_v<std::remove_pointer_t<T>> ||
     std::is_same_v<T, const std::int32_t*> || std::is_same_v<T, const std::int64_t*> ||
     std::is_same_v<T, const char* const*> || std::is_same_v<T, const lockstep_array*> ||
     std::is_same_v<T, const lockstep_value*>);
template <class T>
constexpr bool kIsOut =
    std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>> &&
    (std::is_arithmetic_v<std::remove_pointer_t<T>> ||
     std::is_pointer_v<std::remove_pointer_t<T>> || std::is_same_v<T, lockstep_told*>);
template <class T>
constexpr bool kIsStruct =
    std::is_same_v<T, const lockstep_config*> || std::is_same_v<T, const lockstep_run*> ||
    std::is_same_v<T, const lockstep_operation*>;

/// A parameter that is the number of items of the list in the parameter before it.
struct Count {};

template <class Before, class T, class After>
auto slot_for() {
  using Pointee = std::remove_const_t<std::remove_pointer_t<T>>;
  if constexpr (std::is_same_v<T, std::size_t> && kIsList<Before>)
    return Count{};
  else if constexpr (std::is_same_v<T, const void*> && !std::is_same_v<After, std::size_t>)
    return In<T>{};
  else if constexpr (kIsList<T>)
    return Sequence<Pointee>{};
  else if constexpr (kIsStruct<T>)
    return Struct<Pointee>{};
  else if constexpr (kIsOut<T>)
    return Out<std::remove_pointer_t<T>>{};
  else
    return In<T>{};
}

template <class T>
constexpr bool kIsPassed = true;  // Python passes an argument for a parameter of type T
template <>
constexpr bool kIsPassed<Count> = false;
template <class T>
constexpr bool kIsPassed<Out<T>> = false;
template <class T>
constexpr bool kIsReturned = false;
template <class T>
constexpr bool kIsReturned<Out<T>> = true;

/// One function of the library.
template <class R, class... A>
class Function {
 public:
  static PyObject* call(PyObject* self, PyObject* arguments) {
    return called(reinterpret_cast<R (*)(A...)>(PyLong_AsVoidPtr(self)), arguments,
                  std::index_sequence_for<A...>{});
  }

 private:
  template <std::size_t I>
  using Slot = decltype(slot_for<At<I, A...>, At<I + 1, A...>, At<I + 2, A...>>());

  template <std::size_t... I>
  static PyObject* called(R (*function)(A...), PyObject* arguments, std::index_sequence<I...>) {
    constexpr Py_ssize_t kTakes = (Py_ssize_t{0} + ... + (kIsPassed<Slot<I>> ? 1 : 0));
    if (PyTuple_Size(arguments) != kTakes) {
      PyErr_Format(PyExc_TypeError, "this function takes %zd arguments, not %zd", kTakes,
                   PyTuple_Size(arguments));
      return nullptr;
    }
    std::tuple<Slot<I>...> slots;
    [[maybe_unused]] Py_ssize_t at = 0;
    if (!(read(std::get<I>(slots), arguments, at) && ...)) return nullptr;
    if constexpr (std::is_void_v<R>) {
      Py_BEGIN_ALLOW_THREADS
      function(passed<I>(slots)...);
      Py_END_ALLOW_THREADS
      return returned(slots, none(), std::index_sequence<I...>{});
    } else {
      R result{};
      Py_BEGIN_ALLOW_THREADS
      result = function(passed<I>(slots)...);
      Py_END_ALLOW_THREADS
      if constexpr (std::is_same_v<R, const char*> &&
                    std::is_same_v<At<sizeof...(A), A...>, std::size_t*>) {
        const auto length = static_cast<Py_ssize_t>(std::get<sizeof...(A) - 1>(slots).value);
        return result == nullptr ? none() : PyBytes_FromStringAndSize(result, length);
      } else {
        return returned(slots, give(result), std::index_sequence<I...>{});
      }
    }
  }

  template <class S>
  static bool read(S& slot, PyObject* arguments, Py_ssize_t& at) {
    if constexpr (kIsPassed<S>)
      return slot.read(PyTuple_GetItem(arguments, at++));
    else
      return true;
  }

  template <std::size_t I, class Slots>
  static auto passed(Slots& slots) {
    if constexpr (std::is_same_v<Slot<I>, Count>)
      return std::get<I - 1>(slots).count();
    else
      return std::get<I>(slots).get();
  }

  /// Returns `result` alone if there are no out parameters; else a tuple of `result` and the out
  /// parameters, in which a buffer and its length are bytes. Takes ownership of `result`.
  template <class Slots, std::size_t... I>
  static PyObject* returned(Slots& slots, PyObject* result, std::index_sequence<I...>) {
    constexpr bool kIsBuffer = (false || ... || std::is_same_v<Slot<I>, Out<const void*>>);
    constexpr Py_ssize_t kOuts = (Py_ssize_t{0} + ... + (kIsReturned<Slot<I>> ? 1 : 0));
    if constexpr (kOuts == 0) {
      return result;
    } else if constexpr (kIsBuffer) {
      constexpr std::size_t kLast = sizeof...(A) - 1;
      const auto* bytes = static_cast<const char*>(std::get<kLast - 1>(slots).value);
      const auto size = static_cast<Py_ssize_t>(std::get<kLast>(slots).value);
      return Py_BuildValue("(NN)", result,
                           bytes == nullptr ? none() : PyBytes_FromStringAndSize(bytes, size));
    } else {
      Owned out(PyTuple_New(1 + kOuts));
      if (!out) {
        Py_XDECREF(result);
        return nullptr;
      }
      Py_ssize_t at = 0;
      const bool all = PyTuple_SetItem(out.get(), at++, result) == 0 && result != nullptr &&
                       (add(out.get(), at, std::get<I>(slots)) && ...);
      return all ? out.release() : nullptr;
    }
  }

  template <class S>
  static bool add(PyObject* out, Py_ssize_t& at, S& slot) {
    if constexpr (kIsReturned<S>) {
      PyObject* given = give(slot.value);
      return PyTuple_SetItem(out, at++, given) == 0 && given != nullptr;
    } else {
      return true;
    }
  }
};

template <class R, class... A>
constexpr PyCFunction caller_of(R (*)(A...)) {
  return Function<R, A...>::call;
}

// Functions with callbacks are in module.cpp.
#define F(name) \
  PyMethodDef { #name, caller_of(decltype(&lockstep_##name)(nullptr)), METH_VARARGS, nullptr }
std::array table{
    F(abi), F(agreement_create), F(agreement_free), F(audit), F(audit_summary), F(build_failed),
    F(build_guard), F(build_kept), F(build_share), F(build_uniform), F(busy), F(code_name),
    F(controller_fetch), F(controller_finish), F(controller_free), F(controller_load),
    F(controller_put), F(controller_read), F(controller_settle), F(controller_sizes),
    F(controller_take_over), F(controller_workers), F(decision_field_bytes),
    F(decision_field_int), F(decision_field_join), F(decision_field_name), F(decision_field_type),
    F(decision_field_values), F(decision_fields), F(decision_json), F(decision_symbol),
    F(decision_text), F(done), F(dtype_from_name), F(ends_at_loss), F(exit_code),
    F(fetched_array), F(fetched_free), F(finding), F(fingerprint_of), F(finish), F(group_alone),
    F(group_close), F(group_open), F(group_rank), F(group_size), F(issues), F(last_error),
    F(launched), F(leave), F(lines_alive), F(lines_apart), F(lines_apart_text), F(lines_arrived),
    F(lines_deadline), F(lines_finish), F(lines_free), F(lines_gone), F(lines_group),
    F(lines_head), F(lines_in_flight), F(lines_issue), F(lines_issued), F(lines_join),
    F(lines_leave), F(lines_meet), F(lines_open), F(lines_peer), F(lines_place),
    F(lines_take_from_any), F(lines_tell), F(lines_threads_beside), F(lines_told), F(more), F(note), F(observation_create),
    F(observation_free), F(observe_bool), F(observe_field), F(observe_float), F(observe_int),
    F(observe_tensor), F(poke), F(prefetch), F(program_call), F(program_free), F(program_text),
    F(report_code), F(report_message), F(report_ranks), F(report_rows), F(report_source),
    F(report_text), F(report_value), F(resync), F(set_all), F(set_field_bool), F(set_field_bytes),
    F(set_field_int), F(set_mark), F(set_sizes), F(settle), F(stalls), F(tensors_count),
    F(tensors_dtype), F(tensors_free), F(tensors_name), F(tensors_one), F(trouble), F(version),
    F(vote_all), F(vote_any), F(wait_begin), F(wait_end), F(wait_look)};
#undef F

}  // namespace

PyObject* load(const char* path) {
  // RTLD_GLOBAL: if liblockstep loads an MPI library, that library's plug-ins find its symbols.
  void* found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (found == nullptr) {
    PyErr_SetString(PyExc_OSError, dlerror());
    return nullptr;
  }
  Owned out(PyDict_New());
  for (PyMethodDef& function : table) {
    void* address = function_of(found, function.ml_name);
    if (address == nullptr) {
      PyErr_Format(PyExc_OSError, "%s has no function lockstep_%s", path, function.ml_name);
      return nullptr;
    }
    const Owned self(PyLong_FromVoidPtr(address));
    const Owned made(self ? PyCFunction_New(&function, self.get()) : nullptr);
    if (!out || !made || PyDict_SetItemString(out.get(), function.ml_name, made.get()) != 0)
      return nullptr;
  }
  library = found;
  return out.release();
}

void* loaded(const char* function) {
  return library == nullptr ? nullptr : function_of(library, function);
}

}  // namespace lockstep::python
