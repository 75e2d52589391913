// What every tensor holds.
#pragma once

#include "node.hpp"

namespace pyasc {

struct Tensor {
    PyObject_HEAD Tensor* base;  // an owner, or null where this is one
    Node* node;  // an owner's present node; a view's VIEW node on the base's present one, or null
    const DtypeInfo* dtype;
    PyObject* shape;
    PyObject* strides;  // a view's, in elements; null for an owner
    int64_t size;
    int64_t offset;
    bool covers;  // a view that is the whole base in C order
    PyObject* weak;
    // All tensors alive, oldest first.
    Tensor* older;
    Tensor* newer;
    // An owner: the views whose node stands on its present node. A view: its place among them.
    Tensor* next_view;
    Tensor* previous_view;
};

extern PyTypeObject TensorType;

inline bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, &TensorType); }

// The present node, borrowed; null with an exception set.
Node* tensor_node(Tensor* tensor);

Ref<> new_owner(Node* node);
Ref<> new_view(Tensor* base, PyObject* shape, int64_t size, PyObject* strides, int64_t offset);

// The node seen in a shape that it broadcasts to.
Ref<Node> broadcast_node(Node* node, PyObject* shape, int64_t size);

// The tensor methods of the module.
PyObject* unary(PyObject*, PyObject* const* arguments, Py_ssize_t count);
PyObject* binary(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names);
void set_promotion(PyObject* function);

void set_tensor_type(PyTypeObject* type);
// Appends (tensor, replaced node) to a list for each write of this thread; None: no more.
void log_writes(PyObject* list);
PyObject* live_tensors();
int64_t live_count();

}  // namespace pyasc
