// Buffers: blocks of the pool, memory of a device, or memory of a NumPy array, as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include "memory.hpp"

namespace pyasc {

struct Buffer {
    PyObject_HEAD Memory memory;
    PyObject* owner;     // the array, or null
    Py_ssize_t exports;  // what looks at the memory through the buffer protocol
    PyObject* weak;

    // Whether the host's memory has to be where it is.
    bool stays() const { return owner || exports > 0; }
};

extern PyTypeObject BufferType;

inline bool is_buffer(PyObject* object) { return Py_IS_TYPE(object, &BufferType); }
inline PyObject* as_object(Buffer* buffer) { return reinterpret_cast<PyObject*>(buffer); }

// Without memory yet; null with an exception set.
Buffer* new_buffer();
pybind11::object made_buffer();
Buffer* expect_buffer(pybind11::handle object);

// The address of the contents in the host's memory, copied there first where only a device has them. Raises
// as Python does: throws pybind11::error_already_set.
char* host_address(Buffer* buffer);

// Forgets what a device has of an array's memory that somebody else may write between two runs: nobody does
// where the array, and what it is a view of, is only held by the buffer.
void refresh(Buffer* buffer);

}  // namespace pyasc
