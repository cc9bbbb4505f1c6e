// The functions of liblockstep as functions of Python, with the signatures that its headers give
// them (arguments.h).
#pragma once

#include "python_api.h"

namespace lockstep::python {

/// Loads the library at `path`. Returns a dict of its functions by their names without "lockstep_",
/// each with its address as __self__. Null: a Python exception is set, OSError if there is no such
/// library.
[[nodiscard]] PyObject* load(const char* path);
/// Returns the address of a function of the library loaded last; null if none has been loaded.
[[nodiscard]] void* loaded(const char* function);

}  // namespace lockstep::python
