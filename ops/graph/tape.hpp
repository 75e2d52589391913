// The tape: what lies below some roots, in recording order, and its structural key.
#pragma once

#include <Python.h>

#include <string>

namespace pyasc {

extern PyTypeObject TapeType;

PyObject* linearise(PyObject* roots, bool keep_held);

// Appends attrs by value: equal bytes, equal values of equal types. False with TypeError set for what
// is not an int, float, bool, str, None, dtype or a tuple of them.
bool append_attrs(PyObject* attrs, std::string* key, int depth = 0);

}  // namespace pyasc
