#include "buffer.hpp"

#include <cstddef>

namespace pyasc {

namespace {

Buffer* self_buffer(PyObject* self) { return reinterpret_cast<Buffer*>(self); }

void buffer_dealloc(PyObject* self) {
    Buffer* buffer = self_buffer(self);
    if (buffer->weak) PyObject_ClearWeakRefs(self);
    if (buffer->block.address) Pool::instance().release(buffer->block);
    Py_XDECREF(buffer->owner);
    PyObject_Free(self);
}

PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromSsize_t(self_buffer(self)->nbytes); }
PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(self_buffer(self)->address); }

PyObject* get_exported(PyObject* self, void*) {
    const Buffer* buffer = self_buffer(self);
    return PyBool_FromLong(buffer->owner || buffer->exports > 0);
}

// Read-only: what is handed out never changes, and what others compute from it must not either.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    Buffer* buffer = self_buffer(self);
    if (PyBuffer_FillInfo(view, self, buffer->address, buffer->nbytes, 1, flags) < 0) return -1;
    ++buffer->exports;
    return 0;
}

void release_buffer(PyObject* self, Py_buffer*) { --self_buffer(self)->exports; }

PyObject* buffer_repr(PyObject* self) {
    const Buffer* buffer = self_buffer(self);
    return PyUnicode_FromFormat("<Buffer of %zd bytes at %p>", buffer->nbytes, buffer->address);
}

PyGetSetDef buffer_properties[] = {
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"address", get_address, nullptr, nullptr, nullptr},
    {"exported", get_exported, nullptr, "Whether something outside the library looks at the memory.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyBufferProcs buffer_protocol = {get_buffer, release_buffer};

PyTypeObject buffer_type() {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "pyasc.backend._runtime.Buffer";
    type.tp_doc = "A block of the pool, returned to it when the last reference goes.";
    type.tp_basicsize = sizeof(Buffer);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_dealloc = buffer_dealloc;
    type.tp_repr = buffer_repr;
    type.tp_as_buffer = &buffer_protocol;
    type.tp_weaklistoffset = offsetof(Buffer, weak);
    type.tp_getset = buffer_properties;
    return type;
}

}  // namespace

PyTypeObject BufferType = buffer_type();

Buffer* new_buffer() {
    Buffer* buffer = PyObject_New(Buffer, &BufferType);
    if (!buffer) return nullptr;
    buffer->address = nullptr;
    buffer->nbytes = 0;
    buffer->block = {};
    buffer->owner = buffer->weak = nullptr;
    buffer->exports = 0;
    return buffer;
}

}  // namespace pyasc
