#include "buffer.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <new>

#include "failure.hpp"

namespace py = pybind11;

namespace pyasc {

namespace {

Buffer* self_buffer(PyObject* self) { return reinterpret_cast<Buffer*>(self); }

// What a function gives, or null with its exception set.
template <class Function>
PyObject* raising(Function&& function) {
    try {
        return function();
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

void buffer_dealloc(PyObject* self) {
    Buffer* buffer = self_buffer(self);
    if (buffer->weak) PyObject_ClearWeakRefs(self);
    release(buffer->memory);
    buffer->memory.~Memory();
    Py_XDECREF(buffer->owner);
    PyObject_Free(self);
}

PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromSsize_t(self_buffer(self)->memory.nbytes); }

PyObject* get_address(PyObject* self, void*) {
    return raising([&] { return PyLong_FromVoidPtr(host_address(self_buffer(self))); });
}

PyObject* get_exported(PyObject* self, void*) {
    const Buffer* buffer = self_buffer(self);
    const DeviceSide* side = buffer->memory.side.get();
    return PyBool_FromLong(buffer->stays() || (side && (side->owner || side->exported)));
}

PyObject* get_device(PyObject* self, void*) {
    const npu::Device* device = device_of(self_buffer(self)->memory);
    return PyLong_FromLong(device ? device->number() : -1);
}

PyObject* get_on_host(PyObject* self, void*) { return PyBool_FromLong(on_host(self_buffer(self)->memory)); }

PyObject* get_committed(PyObject* self, void*) {
    const DeviceSide* side = self_buffer(self)->memory.side.get();
    return PyBool_FromLong(side && side->valid && side->committed);
}

PyObject* device_address(PyObject* self, PyObject*) {
    return raising([&]() -> PyObject* {
        Memory& memory = self_buffer(self)->memory;
        npu::Device* device = device_of(memory);
        if (!device) {
            PyErr_SetString(PyExc_ValueError, "[device_address] expected a buffer with contents on a device");
            return nullptr;
        }
        DeviceSide& side = *memory.side;
        // Others read it in the stream of the compute lane.
        if (side.written.number && side.written.lane != npu::Lane::compute)
            on_device(device->number(), [&] { device->order(npu::Lane::compute, side.written); });
        side.exported = true;
        return PyLong_FromVoidPtr(side.block.address);
    });
}

// Read-only: what is handed out never changes, and what others compute from it must not either.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    Buffer* buffer = self_buffer(self);
    view->obj = nullptr;
    const bool filled = raising([&]() -> PyObject* {
        char* const address = host_address(buffer);
        return PyBuffer_FillInfo(view, self, address, buffer->memory.nbytes, 1, flags) < 0 ? nullptr : self;
    });
    if (!filled) return -1;
    ++buffer->exports;
    return 0;
}

void release_buffer(PyObject* self, Py_buffer*) { --self_buffer(self)->exports; }

PyObject* buffer_repr(PyObject* self) {
    const Memory& memory = self_buffer(self)->memory;
    if (const npu::Device* device = device_of(memory))
        return PyUnicode_FromFormat("<Buffer of %zd bytes on npu:%d%s>", memory.nbytes, device->number(),
                                    memory.side->on_host ? " and the host" : "");
    return PyUnicode_FromFormat("<Buffer of %zd bytes at %p>", memory.nbytes, memory.address);
}

PyGetSetDef buffer_properties[] = {
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"address", get_address, nullptr, "Of the contents in the host's memory, copied there first.", nullptr},
    {"exported", get_exported, nullptr, "Whether something outside the library looks at the memory.",
     nullptr},
    {"device", get_device, nullptr, "The device that has the contents; -1: only the host has.", nullptr},
    {"on_host", get_on_host, nullptr, "Whether the host's memory has the contents.", nullptr},
    {"committed", get_committed, nullptr, "Whether a user put it on its device.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef buffer_methods[] = {
    {"device_address", device_address, METH_NOARGS, "Of the contents on `device`, for other libraries."},
    {nullptr, nullptr, 0, nullptr},
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
    type.tp_methods = buffer_methods;
    return type;
}

bool held_by_one(PyObject* object) {
    if (Py_REFCNT(object) > 1) return false;
    return !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) || !*PyObject_GET_WEAKREFS_LISTPTR(object);
}

bool is_ours_alone(PyObject* array) {
    for (;;) {
        if (PyBytes_CheckExact(array)) return true;
        if (!held_by_one(array) || !py::isinstance<py::array>(array)) return false;
        PyObject* const base = py::detail::array_proxy(array)->base;
        if (!base) return py::detail::array_proxy(array)->flags & py::detail::npy_api::NPY_ARRAY_OWNDATA_;
        array = base;
    }
}

}  // namespace

PyTypeObject BufferType = buffer_type();

Buffer* new_buffer() {
    Buffer* buffer = PyObject_New(Buffer, &BufferType);
    if (!buffer) return nullptr;
    new (&buffer->memory) Memory();
    buffer->owner = buffer->weak = nullptr;
    buffer->exports = 0;
    return buffer;
}

py::object made_buffer() {
    py::object made = py::reinterpret_steal<py::object>(as_object(new_buffer()));
    if (!made) throw py::error_already_set();
    return made;
}

Buffer* expect_buffer(py::handle object) {
    if (!is_buffer(object.ptr())) throw py::type_error("expected a Buffer");
    return reinterpret_cast<Buffer*>(object.ptr());
}

char* host_address(Buffer* buffer) {
    DeviceSide* const side = buffer->memory.side.get();
    if (side && (!side->on_host || side->leaving.number))
        on_device(side->number, [&] { fetch(buffer->memory, true); });
    return buffer->memory.address;
}

void refresh(Buffer* buffer) {
    if (buffer->owner && on_host(buffer->memory) && device_of(buffer->memory) &&
        !is_ours_alone(buffer->owner))
        host_written(buffer->memory);
}

}  // namespace pyasc
