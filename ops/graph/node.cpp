#include "node.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

namespace pyasc {

PyObject* shape_error = nullptr;

namespace {

uint64_t next_order = 0;

// What is pending now, and what was recorded since the last flush. Work is due when both are past the limit:
// the first alone may be what cannot be flushed, the second alone what the user evaluated or dropped.
struct Load {
    int64_t nodes = 0;
    int64_t bytes = 0;
};
Load pending, recorded;
Load limit{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
PyObject* flush_function = nullptr;
bool flushing = false;

// Views compute nothing, leaves and scalars are there.
bool counts(const PrimitiveInfo* primitive) {
    return primitive->kind != Kind::Leaf && primitive->kind != Kind::Scalar && primitive->kind != Kind::View;
}

int64_t bytes_of(const Node* node) { return node->size * node->dtype->itemsize; }

void leave_pending(const Node* node) {
    if (!counts(node->primitive)) return;
    --pending.nodes;
    pending.bytes -= bytes_of(node);
}

// Nodes whose last reference is gone while another is being freed, linked through their payload, so that a
// chain of any length is freed by one loop.
Node* doomed = nullptr;
bool draining = false;

void drop_operands(Node* node) {
    for (uint32_t k = 0; k < node->count; ++k) Py_DECREF(as_object(node->operands[k]));
    if (node->operands != node->own) PyMem_Free(node->operands);
    node->operands = node->own;
    node->count = 0;
}

void destroy(Node* node) {
    leave_pending(node);
    drop_operands(node);
    Py_XDECREF(node->shape);
    Py_XDECREF(node->attrs);
    Py_XDECREF(node->code);
    PyObject_Free(node);
}

void node_dealloc(PyObject* self) {
    Node* node = reinterpret_cast<Node*>(self);
    if (node->weak) PyObject_ClearWeakRefs(self);
    Py_CLEAR(node->payload);
    if (draining) {
        node->payload = as_object(doomed);
        doomed = node;
        return;
    }
    draining = true;
    destroy(node);
    while (doomed) {
        Node* next = doomed;
        doomed = reinterpret_cast<Node*>(next->payload);
        next->payload = nullptr;
        destroy(next);
    }
    draining = false;
}

Ref<Node> new_node(const PrimitiveInfo* primitive, const DtypeInfo* dtype, PyObject* shape, int64_t size) {
    Ref<Node> made(PyObject_New(Node, &NodeType));
    Node* node = made.get();
    if (!node) return made;
    node->primitive = primitive;
    node->dtype = dtype;
    node->shape = Py_NewRef(shape);
    node->attrs = node->payload = node->code = node->weak = nullptr;
    node->operands = node->own;
    node->size = size;
    node->order = next_order++;
    node->bits = node->epoch = 0;
    node->position = node->count = node->held = 0;
    node->instruction = -1;
    return made;
}

Node* self_node(PyObject* self) { return reinterpret_cast<Node*>(self); }

PyObject* get_primitive(PyObject* self, void*) { return Py_NewRef(self_node(self)->primitive->object); }

PyObject* get_operands(PyObject* self, void*) {
    const Node* node = self_node(self);
    PyObject* result = PyTuple_New(node->count);
    for (uint32_t k = 0; result && k < node->count; ++k)
        PyTuple_SET_ITEM(result, k, Py_NewRef(as_object(node->operands[k])));
    return result;
}

PyObject* or_none(PyObject* object) { return Py_NewRef(object ? object : Py_None); }

PyObject* get_attrs(PyObject* self, void*) { return or_none(self_node(self)->attrs); }
PyObject* get_shape(PyObject* self, void*) { return Py_NewRef(self_node(self)->shape); }
PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(self_node(self)->dtype->object); }
PyObject* get_held(PyObject* self, void*) { return PyLong_FromUnsignedLong(self_node(self)->held); }
PyObject* get_order(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(self_node(self)->order); }

PyObject* get_value(PyObject* self, void*) {
    const Node* node = self_node(self);
    return or_none(node->primitive->kind == Kind::Scalar ? node->payload : nullptr);
}

PyObject* get_buffer(PyObject* self, void*) {
    const Node* node = self_node(self);
    return or_none(node->primitive->kind == Kind::Leaf ? node->payload : nullptr);
}

PyObject* get_where(PyObject* self, void*) {
    const Node* node = self_node(self);
    if (!node->code) Py_RETURN_NONE;
    return Py_BuildValue("Oi", node->code, node->instruction);
}

PyObject* settle(PyObject* self, PyObject* buffer) {
    Node* node = self_node(self);
    if (!is_pending(node)) {
        if (node->payload == buffer) Py_RETURN_NONE;
        PyErr_SetString(PyExc_ValueError,
                        "[settle] expected a pending node, given one that has another buffer");
        return nullptr;
    }
    leave_pending(node);
    Ref<> attrs(std::exchange(node->attrs, nullptr));
    Ref<> payload(std::exchange(node->payload, Py_NewRef(buffer)));
    node->primitive = primitives.leaf;
    drop_operands(node);
    Py_RETURN_NONE;
}

PyObject* node_repr(PyObject* self) {
    const Node* node = self_node(self);
    return PyUnicode_FromFormat("<Node %llu %U %S %S>", node->order, node->primitive->name,
                                node->dtype->object, node->shape);
}

PyGetSetDef node_properties[] = {
    {"primitive", get_primitive, nullptr, nullptr, nullptr},
    {"operands", get_operands, nullptr, nullptr, nullptr},
    {"attrs", get_attrs, nullptr, nullptr, nullptr},
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"value", get_value, nullptr, "The Python number of a SCALAR node, else None.", nullptr},
    {"buffer", get_buffer, nullptr, "The runtime buffer, or None while the node is pending.", nullptr},
    {"held", get_held, nullptr, "How many tensors hold this node.", nullptr},
    {"order", get_order, nullptr, "Recording order; operands have a smaller one.", nullptr},
    {"where", get_where, nullptr, "Code object and instruction offset of the user's frame.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef node_methods[] = {
    {"settle", settle, METH_O, "Give the node its buffer; it becomes a LEAF and drops its operands."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject node_type() {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "pyasc.ops._graph.Node";
    type.tp_doc = "One recorded operation, immutable until it is evaluated.";
    type.tp_basicsize = sizeof(Node);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_dealloc = node_dealloc;
    type.tp_repr = node_repr;
    type.tp_weaklistoffset = offsetof(Node, weak);
    type.tp_methods = node_methods;
    type.tp_getset = node_properties;
    return type;
}

}  // namespace

PyTypeObject NodeType = node_type();

Ref<> checked_shape(PyObject* shape, int64_t itemsize, int64_t* size) {
    if (!PyTuple_Check(shape)) {
        PyErr_Format(PyExc_TypeError, "[record] expected a shape tuple, given a %s", Py_TYPE(shape)->tp_name);
        return {};
    }
    const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
    Ref<> result = Ref<>::borrow(shape);
    bool exact = PyTuple_CheckExact(shape);
    for (Py_ssize_t k = 0; k < rank; ++k) exact = exact && PyLong_CheckExact(PyTuple_GET_ITEM(shape, k));
    if (!exact) {
        result = Ref<>(PyTuple_New(rank));
        for (Py_ssize_t k = 0; result && k < rank; ++k) {
            Ref<> index(PyNumber_Index(PyTuple_GET_ITEM(shape, k)));
            PyObject* extent = index ? PyNumber_Long(index.get()) : nullptr;
            if (!extent) return {};
            PyTuple_SET_ITEM(result.get(), k, extent);
        }
        if (!result) return {};
    }
    int64_t bytes = std::max<int64_t>(itemsize, 1);
    bool empty = false, fits = true;
    for (Py_ssize_t k = 0; k < rank; ++k) {
        int overflow = 0;
        const long long extent = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(result.get(), k), &overflow);
        if (overflow < 0 || (overflow == 0 && extent < 0)) {
            PyErr_Format(shape_error, "[record] expected a shape without negative extents, given %R", shape);
            return {};
        }
        if (overflow > 0)
            fits = false;
        else if (extent == 0)
            empty = true;
        else
            fits = fits && !__builtin_mul_overflow(bytes, static_cast<int64_t>(extent), &bytes);
    }
    if (!fits) {
        PyErr_Format(
            shape_error,
            "[record] expected an array of less than 2**63 bytes, given shape %R with %lld bytes per element",
            shape, static_cast<long long>(itemsize));
        return {};
    }
    *size = empty ? 0 : bytes / std::max<int64_t>(itemsize, 1);
    return result;
}

bool same_shape(PyObject* a, PyObject* b) {
    if (a == b) return true;
    const Py_ssize_t rank = PyTuple_GET_SIZE(a);
    if (rank != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t k = 0; k < rank; ++k) {
        PyObject *x = PyTuple_GET_ITEM(a, k), *y = PyTuple_GET_ITEM(b, k);
        if (x != y && PyLong_AsLongLong(x) != PyLong_AsLongLong(y)) return false;
    }
    return true;
}

Ref<> int_tuple(const int64_t* values, Py_ssize_t count) {
    Ref<> result(PyTuple_New(count));
    for (Py_ssize_t k = 0; result && k < count; ++k) {
        PyObject* value = PyLong_FromLongLong(values[k]);
        if (!value) return {};
        PyTuple_SET_ITEM(result.get(), k, value);
    }
    return result;
}

Ref<Node> record_node(const PrimitiveInfo* primitive, const DtypeInfo* dtype, PyObject* shape, int64_t size,
                      PyObject* attrs, Node* const* operands, uint32_t count) {
    Ref<Node> made = new_node(primitive, dtype, shape, size);
    Node* node = made.get();
    if (!node) return made;
    if (counts(primitive)) {
        ++pending.nodes, ++recorded.nodes;
        pending.bytes += bytes_of(node), recorded.bytes += bytes_of(node);
    }
    if (count > std::size(node->own)) {
        node->operands = PyMem_New(Node*, count);
        if (!node->operands) {
            node->operands = node->own;
            PyErr_NoMemory();
            return {};
        }
    }
    for (uint32_t k = 0; k < count; ++k) {
        Py_INCREF(as_object(operands[k]));
        node->operands[k] = operands[k];
    }
    node->count = count;
    node->attrs = Py_XNewRef(attrs);
    node->code = user_code(&node->instruction);
    return made;
}

Ref<Node> scalar_node(const DtypeInfo* dtype, PyObject* value, uint64_t bits) {
    static PyObject* const rank0 = PyTuple_New(0);
    Ref<Node> node = new_node(primitives.scalar, dtype, rank0, 1);
    if (!node) return node;
    node->payload = Py_NewRef(value);
    node->bits = bits;
    return node;
}

Ref<Node> leaf_node(const DtypeInfo* dtype, PyObject* shape, int64_t size, PyObject* buffer) {
    Ref<Node> node = new_node(primitives.leaf, dtype, shape, size);
    if (node) node->payload = Py_NewRef(buffer);
    return node;
}

bool region_fits(int64_t base_size, PyObject* shape, PyObject* strides, int64_t offset) {
    const Py_ssize_t rank = rank_of(shape);
    if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != rank) {
        PyErr_Format(PyExc_ValueError, "[view] expected a stride for each axis of shape %R, given %R", shape,
                     strides);
        return false;
    }
    __int128 low = offset, high = offset;
    bool empty = false;
    for (Py_ssize_t k = 0; k < rank; ++k) {
        const long long stride = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, k));
        if (stride == -1 && PyErr_Occurred()) return false;
        const int64_t extent = extent_of(shape, k);
        empty = empty || extent == 0;
        const __int128 reach = static_cast<__int128>(stride) * (extent - 1);
        (reach < 0 ? low : high) += reach;
        // Beyond this nothing fits, and sums of more axes could wrap.
        if (low < std::numeric_limits<int64_t>::min() || high > std::numeric_limits<int64_t>::max()) break;
    }
    if (empty || (low >= 0 && high < base_size)) return true;
    PyErr_Format(
        PyExc_ValueError,
        "[view] expected a region within a buffer of %lld elements, given shape %R, strides %R, offset %lld",
        static_cast<long long>(base_size), shape, strides, static_cast<long long>(offset));
    return false;
}

Ref<Node> view_node(Node* base, PyObject* shape, int64_t size, PyObject* strides, int64_t offset) {
    if (!region_fits(base->size, shape, strides, offset)) return {};
    Ref<> start(PyLong_FromLongLong(offset));
    Ref<> attrs(start ? PyTuple_Pack(2, strides, start.get()) : nullptr);
    if (!attrs) return {};
    return record_node(primitives.view, base->dtype, shape, size, attrs.get(), &base, 1);
}

bool flush_if_due() {
    const bool many = pending.nodes > limit.nodes && recorded.nodes > limit.nodes;
    const bool large = pending.bytes > limit.bytes && recorded.bytes > limit.bytes;
    if (!(many || large) || flushing || !flush_function) return true;
    const Load before = std::exchange(recorded, {});
    flushing = true;
    Ref<> result(PyObject_CallNoArgs(flush_function));
    flushing = false;
    if (result.get() == Py_False) recorded = before;  // not yet: it is asked again at the next operation
    return static_cast<bool>(result);
}

void set_flush(PyObject* function, int64_t nodes, int64_t bytes) {
    Ref<> replaced(std::exchange(flush_function, function == Py_None ? nullptr : Py_NewRef(function)));
    limit = {nodes, bytes};
    recorded = {};
}

int64_t pending_nodes() { return pending.nodes; }

}  // namespace pyasc
