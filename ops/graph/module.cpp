// The extension module pyasc.ops._graph.
#include "tape.hpp"
#include "tensor.hpp"

namespace pyasc {

namespace {

Ref<> normalised_ints(PyObject* tuple, const char* what) {
    if (!PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "[view] expected a tuple of %s, given a %s", what,
                     Py_TYPE(tuple)->tp_name);
        return {};
    }
    bool exact = PyTuple_CheckExact(tuple);
    for (Py_ssize_t k = 0; exact && k < PyTuple_GET_SIZE(tuple); ++k)
        exact = PyLong_CheckExact(PyTuple_GET_ITEM(tuple, k));
    if (exact) return Ref<>::borrow(tuple);
    Ref<> result(PyTuple_New(PyTuple_GET_SIZE(tuple)));
    for (Py_ssize_t k = 0; result && k < PyTuple_GET_SIZE(tuple); ++k) {
        const long long value = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, k));
        PyObject* item = value == -1 && PyErr_Occurred() ? nullptr : PyLong_FromLongLong(value);
        if (!item) return {};
        PyTuple_SET_ITEM(result.get(), k, item);
    }
    return result;
}

// A VIEW or an UPDATE stays within its base.
bool region_is_sound(const PrimitiveInfo* primitive, Node* const* operands, Py_ssize_t count, PyObject* shape,
                     PyObject* attrs) {
    if (primitive->kind != Kind::View && primitive->kind != Kind::Update) return true;
    const Py_ssize_t expected = primitive->kind == Kind::View ? 1 : 2;
    if (count != expected || !attrs || PyTuple_GET_SIZE(attrs) != 2) {
        PyErr_Format(PyExc_ValueError, "[%U] expected %zd operands and attrs (strides, offset)",
                     primitive->name, expected);
        return false;
    }
    if (primitive->kind == Kind::View && operands[0]->primitive->kind == Kind::View) {
        PyErr_SetString(PyExc_ValueError, "[view] expected a node that is not itself a view");
        return false;
    }
    const long long offset = PyLong_AsLongLong(PyTuple_GET_ITEM(attrs, 1));
    if (offset == -1 && PyErr_Occurred()) return false;
    PyObject* region = primitive->kind == Kind::View ? shape : operands[1]->shape;
    return region_fits(operands[0]->size, region, PyTuple_GET_ITEM(attrs, 0), offset);
}

PyObject* record(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    const bool by_name =
        named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "attrs") == 0;
    if (count < 4 || count + named > 5 || (named && !by_name) || !PyTuple_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "record(primitive, operands, shape, dtype, attrs=None) expects a primitive, a "
                        "tuple of nodes, a shape, a dtype and a tuple or None");
        return nullptr;
    }
    const PrimitiveInfo* primitive = primitive_info(arguments[0]);
    const DtypeInfo* dtype = primitive ? dtype_info(arguments[3]) : nullptr;
    if (!dtype) return nullptr;
    int64_t size = 0;
    Ref<> shape = checked_shape(arguments[2], dtype->itemsize, &size);
    if (!shape) return nullptr;
    const Py_ssize_t operands = PyTuple_GET_SIZE(arguments[1]);
    for (Py_ssize_t k = 0; k < operands; ++k) {
        if (is_node(PyTuple_GET_ITEM(arguments[1], k))) continue;
        PyErr_Format(PyExc_TypeError, "[%U] expected nodes as operands, given a %s", primitive->name,
                     Py_TYPE(PyTuple_GET_ITEM(arguments[1], k))->tp_name);
        return nullptr;
    }
    Node* const* nodes =
        reinterpret_cast<Node* const*>(reinterpret_cast<PyTupleObject*>(arguments[1])->ob_item);
    PyObject* attrs = count + named == 5 && arguments[4] != Py_None ? arguments[4] : nullptr;
    if (attrs) {
        std::string ignored;
        if (!PyTuple_CheckExact(attrs)) {
            PyErr_Format(PyExc_TypeError, "[%U] expected attrs in a tuple, given a %s", primitive->name,
                         Py_TYPE(attrs)->tp_name);
            return nullptr;
        }
        if (!append_attrs(attrs, &ignored)) return nullptr;
    }
    if (!region_is_sound(primitive, nodes, operands, shape.get(), attrs)) return nullptr;
    Ref<Node> node =
        record_node(primitive, dtype, shape.get(), size, attrs, nodes, static_cast<uint32_t>(operands));
    return node.release_object();
}

PyObject* scalar(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "scalar(value, dtype) expects two arguments");
        return nullptr;
    }
    const DtypeInfo* dtype = dtype_info(arguments[1]);
    uint64_t bits = 0;
    if (!dtype || !encode_number(dtype, arguments[0], &bits)) return nullptr;
    return scalar_node(dtype, arguments[0], bits).release_object();
}

PyObject* leaf(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "leaf(buffer, shape, dtype) expects three arguments");
        return nullptr;
    }
    const DtypeInfo* dtype = dtype_info(arguments[2]);
    int64_t size = 0;
    Ref<> shape = dtype ? checked_shape(arguments[1], dtype->itemsize, &size) : Ref<>();
    return shape ? leaf_node(dtype, shape.get(), size, arguments[0]).release_object() : nullptr;
}

PyObject* tensor(PyObject*, PyObject* node) {
    if (is_node(node)) {
        Ref<> made = new_owner(reinterpret_cast<Node*>(node));
        return made && flush_if_due() ? made.release() : nullptr;
    }
    PyErr_Format(PyExc_TypeError, "[tensor] expected a Node, given a %s", Py_TYPE(node)->tp_name);
    return nullptr;
}

PyObject* view(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 4 || !is_tensor(arguments[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "view(base, shape, strides, offset) expects a tensor, two tuples and an int");
        return nullptr;
    }
    Tensor* base = reinterpret_cast<Tensor*>(arguments[0]);
    int64_t size = 0;
    Ref<> shape = checked_shape(arguments[1], base->dtype->itemsize, &size);
    Ref<> strides = shape ? normalised_ints(arguments[2], "strides") : Ref<>();
    if (!strides) return nullptr;
    const long long offset = PyLong_AsLongLong(arguments[3]);
    if (offset == -1 && PyErr_Occurred()) return nullptr;
    return new_view(base, shape.get(), size, strides.get(), offset).release();
}

PyObject* broadcast(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2 || !(is_tensor(arguments[0]) || is_node(arguments[0]))) {
        PyErr_SetString(PyExc_TypeError, "broadcast(x, shape) expects a tensor or a node, and a tuple");
        return nullptr;
    }
    Node* node = is_node(arguments[0]) ? reinterpret_cast<Node*>(arguments[0])
                                       : tensor_node(reinterpret_cast<Tensor*>(arguments[0]));
    int64_t size = 0;
    Ref<> shape = node ? checked_shape(arguments[1], node->dtype->itemsize, &size) : Ref<>();
    if (!shape) return nullptr;
    const Py_ssize_t extra = rank_of(shape.get()) - rank_of(node->shape);
    bool fits = extra >= 0;
    for (Py_ssize_t k = 0; fits && k < rank_of(node->shape); ++k) {
        const int64_t extent = extent_of(node->shape, k);
        fits = extent == 1 || extent == extent_of(shape.get(), k + extra);
    }
    if (!fits) {
        PyErr_Format(shape_error, "[broadcast_to] expected a shape that %S broadcasts to, given %S",
                     node->shape, shape.get());
        return nullptr;
    }
    return broadcast_node(node, shape.get(), size).release_object();
}

PyObject* linearise_(PyObject*, PyObject* arguments, PyObject* names) {
    static const char* keywords[] = {"roots", "keep_held", nullptr};
    PyObject* roots = nullptr;
    int keep_held = 1;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|p", const_cast<char**>(keywords), &roots,
                                     &keep_held))
        return nullptr;
    return linearise(roots, keep_held != 0);
}

PyObject* set_tensor_type_(PyObject*, PyObject* type) {
    const bool fits =
        PyType_Check(type) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &TensorType);
    if (!fits) {
        PyErr_Format(PyExc_TypeError, "[set_tensor_type] expected a subclass of TensorBase, given %R", type);
        return nullptr;
    }
    set_tensor_type(reinterpret_cast<PyTypeObject*>(type));
    Py_RETURN_NONE;
}

PyObject* set_promotion_(PyObject*, PyObject* function) {
    set_promotion(function);
    Py_RETURN_NONE;
}

PyObject* set_flush_(PyObject*, PyObject* arguments) {
    PyObject* function = nullptr;
    long long nodes = 0, bytes = 0;
    if (!PyArg_ParseTuple(arguments, "OLL", &function, &nodes, &bytes)) return nullptr;
    set_flush(function, nodes, bytes);
    Py_RETURN_NONE;
}

PyObject* set_shape_error(PyObject*, PyObject* type) {
    if (!PyExceptionClass_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "[set_shape_error] expected an exception class");
        return nullptr;
    }
    Ref<> replaced(std::exchange(shape_error, Py_NewRef(type)));
    Py_RETURN_NONE;
}

PyObject* log_writes_(PyObject*, PyObject* list) {
    if (list != Py_None && !PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "[log_writes] expected a list or None");
        return nullptr;
    }
    log_writes(list);
    Py_RETURN_NONE;
}

PyObject* live_tensors_(PyObject*, PyObject*) { return live_tensors(); }
PyObject* live_count_(PyObject*, PyObject*) { return PyLong_FromLongLong(live_count()); }
PyObject* pending_count(PyObject*, PyObject*) { return PyLong_FromLongLong(pending_nodes()); }

template <class F>
PyCFunction as_function(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"record", as_function(record), METH_FASTCALL | METH_KEYWORDS, "Append a node."},
    {"scalar", as_function(scalar), METH_FASTCALL, "A rank-0 SCALAR node."},
    {"leaf", as_function(leaf), METH_FASTCALL, "A node of a buffer that exists."},
    {"tensor", tensor, METH_O, "A new owner tensor."},
    {"view", as_function(view), METH_FASTCALL, "A view of an owner tensor."},
    {"unary", as_function(unary), METH_FASTCALL, "Record an elementwise primitive on one tensor."},
    {"binary", as_function(binary), METH_FASTCALL | METH_KEYWORDS,
     "Record an elementwise primitive on two operands."},
    {"broadcast", as_function(broadcast), METH_FASTCALL, "The node of x seen in a shape."},
    {"linearise", as_function(linearise_), METH_VARARGS | METH_KEYWORDS, "The tape below some roots."},
    {"set_tensor_type", set_tensor_type_, METH_O, "The class that tensor and view make."},
    {"set_promotion", set_promotion_, METH_O, "The slow path of binary."},
    {"set_flush", set_flush_, METH_VARARGS, "What to call when too much is pending."},
    {"set_shape_error", set_shape_error, METH_O, "The exception of shapes that do not broadcast."},
    {"log_writes", log_writes_, METH_O, "Where this thread's writes are noted."},
    {"live_tensors", live_tensors_, METH_NOARGS, "Every tensor alive, oldest first."},
    {"live_count", live_count_, METH_NOARGS, "The number of tensors alive."},
    {"pending_count", pending_count, METH_NOARGS, "Nodes recorded, not settled and not dropped."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_graph",
                          "Nodes of recorded operations and what tensors hold of them.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

}  // namespace pyasc

PyMODINIT_FUNC PyInit__graph() {
    using namespace pyasc;
    for (PyTypeObject* type : {&NodeType, &TensorType, &TapeType})
        if (PyType_Ready(type) < 0) return nullptr;
    shape_error = Py_NewRef(PyExc_ValueError);
    if (!load_tables()) return nullptr;
    Ref<> module(PyModule_Create(&definition));
    if (!module || PyModule_AddObjectRef(module.get(), "Node", reinterpret_cast<PyObject*>(&NodeType)) < 0 ||
        PyModule_AddObjectRef(module.get(), "TensorBase", reinterpret_cast<PyObject*>(&TensorType)) < 0 ||
        PyModule_AddObjectRef(module.get(), "Tape", reinterpret_cast<PyObject*>(&TapeType)) < 0)
        return nullptr;
    return module.release();
}
