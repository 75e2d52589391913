// Buffers: blocks of the pool, or memory of a NumPy array, as Python objects.
#pragma once

#include <Python.h>

#include "pool.hpp"

namespace pyasc {

struct Buffer {
    PyObject_HEAD char* address;
    Py_ssize_t nbytes;
    Block block;         // what goes back to the pool; none for an array's memory
    PyObject* owner;     // the array, or null
    Py_ssize_t exports;  // what looks at the memory through the buffer protocol
    PyObject* weak;
};

extern PyTypeObject BufferType;

inline bool is_buffer(PyObject* object) { return Py_IS_TYPE(object, &BufferType); }
inline PyObject* as_object(Buffer* buffer) { return reinterpret_cast<PyObject*>(buffer); }

// Without memory yet; null with an exception set.
Buffer* new_buffer();

}  // namespace pyasc
