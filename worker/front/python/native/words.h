// Words that all ranks share, as Python gives and receives them.
#pragma once

#include "python_api.h"

namespace lockstep::python {

inline constexpr const char* kAgreeWords =
    "agree_words(group, name, where, deadline, words) -> (code, agreed): lockstep_agree_words() of "
    "a dict from ops to a word or a sequence of words each.";
PyObject* agree_words(PyObject*, PyObject* arguments);
inline constexpr const char* kAgreeWordsAhead =
    "agree_words_ahead(group, name, where, words) -> code: lockstep_agree_words_ahead().";
PyObject* agree_words_ahead(PyObject*, PyObject* arguments);

}  // namespace lockstep::python
