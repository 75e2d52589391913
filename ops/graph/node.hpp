// Nodes: the recorded operations.
#pragma once

#include <Python.h>

#include <cstdint>

#include "reference.hpp"
#include "tables.hpp"

namespace pyasc {

// Not a type that Python's cycle collector tracks: all that a node holds is other nodes, which are older,
// and plain values and buffers, which lead to no node.
struct Node {
    PyObject_HEAD const PrimitiveInfo* primitive;
    const DtypeInfo* dtype;
    PyObject* shape;    // a tuple of exact ints
    PyObject* attrs;    // a tuple, or null
    PyObject* payload;  // a SCALAR's number, a LEAF's buffer, else null
    PyObject* code;     // the code object of the user's frame, or null
    PyObject* weak;
    Node** operands;  // `own` or, where they are many, a block of their own
    Node* own[3];
    int64_t size;
    uint64_t order;
    uint64_t bits;   // a SCALAR's, see encode_number
    uint64_t epoch;  // of the last linearise that came by
    uint32_t position;
    uint32_t count;  // of operands
    uint32_t held;
    int32_t instruction;
};

extern PyTypeObject NodeType;

inline bool is_node(PyObject* object) { return Py_IS_TYPE(object, &NodeType); }
inline bool is_pending(const Node* node) { return node->primitive->kind != Kind::Leaf; }
inline PyObject* as_object(Node* node) { return reinterpret_cast<PyObject*>(node); }

// Dimensions of a shape tuple that a node holds.
inline Py_ssize_t rank_of(PyObject* shape) { return PyTuple_GET_SIZE(shape); }
inline int64_t extent_of(PyObject* shape, Py_ssize_t axis) {
    return PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
}

// The shape as a tuple of exact ints, none negative, with its number of elements; the bytes fit 63 bits.
Ref<> checked_shape(PyObject* shape, int64_t itemsize, int64_t* size);
bool same_shape(PyObject* a, PyObject* b);
Ref<> int_tuple(const int64_t* values, Py_ssize_t count);

// A node of an operation, seen by the pending count; operands are borrowed. Also remembers the user's frame.
Ref<Node> record_node(const PrimitiveInfo* primitive, const DtypeInfo* dtype, PyObject* shape, int64_t size,
                      PyObject* attrs, Node* const* operands, uint32_t count);
Ref<Node> scalar_node(const DtypeInfo* dtype, PyObject* value, uint64_t bits);
Ref<Node> leaf_node(const DtypeInfo* dtype, PyObject* shape, int64_t size, PyObject* buffer);

// A VIEW node on base. base is not itself a view; the strided region lies within it, which is checked.
Ref<Node> view_node(Node* base, PyObject* shape, int64_t size, PyObject* strides, int64_t offset);
bool region_fits(int64_t base_size, PyObject* shape, PyObject* strides, int64_t offset);

// Calls the flush function where too much is pending; to be called when a tensor holds what was recorded.
bool flush_if_due();
void set_flush(PyObject* function, int64_t nodes, int64_t bytes);
int64_t pending_nodes();

// The exception of shapes that do not go together, ValueError until it is set.
extern PyObject* shape_error;

// The code object of the innermost frame outside the library, or null; a new reference.
PyObject* user_code(int32_t* instruction);

}  // namespace pyasc
