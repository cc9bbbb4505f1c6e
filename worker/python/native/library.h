// The functions of liblockstep as functions of Python, with the signatures that its headers give
// them (arguments.h).
#pragma once

#include "python_api.h"

namespace lockstep::python {

/// Of the library at `path`: a dict of functions by their names without "lockstep_", each with its
/// address as __self__. Null: a Python exception is set: OSError, where there is no such library.
[[nodiscard]] PyObject* load(const char* path);
/// What a library that has been loaded calls so; null: none has been.
[[nodiscard]] void* loaded(const char* function);

}  // namespace lockstep::python
