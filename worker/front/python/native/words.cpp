#include "words.h"

#include <lockstep.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "library.h"

namespace lockstep::python {
namespace {

/// The ops by number.
constexpr std::array kOps{"min", "max", "sum",   "bitand", "bitor",
                          "all", "any", "equal", "argmin", "argmax"};
constexpr std::int32_t kAll = LOCKSTEP_OP_ALL, kAny = LOCKSTEP_OP_ANY;

/// Number of an op by its name: a borrowed dict, made once. Null: a Python exception is set.
PyObject* op_numbers() {
  static PyObject* const numbers = [] {
    Owned out(PyDict_New());
    for (std::size_t op = 0; out && op < kOps.size(); ++op) {
      const Owned number(PyLong_FromSize_t(op));
      if (!number || PyDict_SetItemString(out.get(), kOps[op], number.get()) != 0) out.reset();
    }
    return out.release();
  }();
  return numbers;
}

/// The words of one call. More than the library takes are counted, but not kept.
class Words {
 public:
  static constexpr std::size_t kMost = 8;

  /// Reads {op: word or sequence of words}. False: a Python exception is set.
  bool read(PyObject* by_op) {
    PyObject *key = nullptr, *value = nullptr;
    PyObject* const numbers = op_numbers();
    for (Py_ssize_t at = 0; numbers != nullptr && PyDict_Next(by_op, &at, &key, &value) != 0;) {
      PyObject* const number = PyDict_GetItem(numbers, key);
      if (number == nullptr) {
        PyErr_Format(PyExc_TypeError,
                     "agree() has no op %R; the ops are min, max, sum, bitand, bitor, all, any, equal, "
                     "argmin and argmax",
                     key);
        return false;
      }
      if (!read(static_cast<std::int32_t>(PyLong_AsLong(number)), value)) return false;
    }
    return numbers != nullptr;
  }

  /// The agreed words, in the form in which they were given. Null: a Python exception is set.
  [[nodiscard]] PyObject* agreed() const {
    if (parts_ == 1) return part(0);
    Owned all(PyTuple_New(static_cast<Py_ssize_t>(parts_)));
    for (std::size_t i = 0; all && i < parts_; ++i) {
      PyObject* made = part(i);
      if (made == nullptr || PyTuple_SetItem(all.get(), static_cast<Py_ssize_t>(i), made) != 0)
        return nullptr;
    }
    return all.release();
  }

  std::array<std::int64_t, kMost + 1> words;
  std::array<std::int32_t, kMost + 1> ops, ranks;
  std::size_t count = 0;

 private:
  bool read(std::int32_t op, PyObject* value) {
    const bool is_list = PyList_Check(value) != 0 || PyTuple_Check(value) != 0;
    const Part part{count, is_list ? static_cast<std::size_t>(PySequence_Size(value)) : 1, is_list};
    if (parts_ < parts_kept_.size()) parts_kept_[parts_++] = part;
    if (!is_list) return read_word(op, value);
    for (std::size_t i = 0; i < part.size; ++i) {
      const Owned item(PySequence_GetItem(value, static_cast<Py_ssize_t>(i)));
      if (!item || !read_word(op, item.get())) return false;
    }
    return true;
  }

  bool read_word(std::int32_t op, PyObject* value) {
    std::int64_t word = 0;
    if (op == kAll || op == kAny) {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) return false;
      word = truth;
    } else {
      const Owned number(PyNumber_Index(value));
      if (!number) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
          PyErr_Format(PyExc_TypeError, "agree(%s=%R): a word is a whole number, such as nanoseconds",
                       kOps[static_cast<std::size_t>(op)], value);
        return false;
      }
      word = PyLong_AsLongLong(number.get());
      if (word == -1 && PyErr_Occurred() != nullptr) return false;
    }
    const std::size_t at = count++;
    if (at < words.size()) words[at] = word, ops[at] = op;
    return true;
  }

  /// The words of one op.
  struct Part {
    std::size_t first, size;
    bool is_list;
  };
  [[nodiscard]] PyObject* part(std::size_t i) const {
    const Part& part = parts_kept_[i];
    if (!part.is_list) return word(part.first);
    Owned list(PyList_New(static_cast<Py_ssize_t>(part.size)));
    for (std::size_t w = 0; list && w < part.size; ++w) {
      PyObject* made = word(part.first + w);
      if (made == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(w), made) != 0)
        return nullptr;
    }
    return list.release();
  }
  [[nodiscard]] PyObject* word(std::size_t at) const {
    if (ops[at] == kAll || ops[at] == kAny) return PyBool_FromLong(static_cast<long>(words[at]));
    if (ranks[at] >= 0)
      return Py_BuildValue("Li", static_cast<long long>(words[at]), ranks[at]);
    return PyLong_FromLongLong(words[at]);
  }

  std::array<Part, kMost + 2> parts_kept_;
  std::size_t parts_ = 0;
};

}  // namespace

PyObject* agree_words(PyObject*, PyObject* arguments) {
  unsigned long long group = 0;
  const char *name = nullptr, *where = nullptr;
  double deadline = 0;
  PyObject* by_op = nullptr;
  if (PyArg_ParseTuple(arguments, "KssdO!:agree_words", &group, &name, &where, &deadline,
                       &PyDict_Type, &by_op) == 0)
    return nullptr;
  static const auto function =
      reinterpret_cast<decltype(&lockstep_agree_words)>(loaded("agree_words"));
  Words words;
  if (!words.read(by_op)) return nullptr;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS code =
      function(reinterpret_cast<lockstep_group*>(group), name, words.words.data(), words.count,
               words.ops.data(), deadline, where, words.ranks.data());
  Py_END_ALLOW_THREADS if (code != 0) return Py_BuildValue("iO", code, Py_None);
  return Py_BuildValue("iN", code, words.agreed());
}

PyObject* agree_words_ahead(PyObject*, PyObject* arguments) {
  unsigned long long group = 0;
  const char *name = nullptr, *where = nullptr;
  PyObject* by_op = nullptr;
  if (PyArg_ParseTuple(arguments, "KssO!:agree_words_ahead", &group, &name, &where, &PyDict_Type,
                       &by_op) == 0)
    return nullptr;
  static const auto function =
      reinterpret_cast<decltype(&lockstep_agree_words_ahead)>(loaded("agree_words_ahead"));
  Words words;
  if (!words.read(by_op)) return nullptr;
  return PyLong_FromLong(function(reinterpret_cast<lockstep_group*>(group), name,
                                  words.words.data(), words.count, words.ops.data(), where));
}

}  // namespace lockstep::python
