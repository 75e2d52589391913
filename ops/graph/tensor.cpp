#include "tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace pyasc {

namespace {

PyTypeObject* tensor_type = &TensorType;
Tensor* oldest = nullptr;
Tensor* newest = nullptr;
int64_t alive = 0;

Tensor* self_tensor(PyObject* self) { return reinterpret_cast<Tensor*>(self); }

void enlist(Tensor* tensor) {
    tensor->older = newest;
    (newest ? newest->newer : oldest) = tensor;
    newest = tensor;
    ++alive;
}

void delist(Tensor* tensor) {
    (tensor->older ? tensor->older->newer : oldest) = tensor->newer;
    (tensor->newer ? tensor->newer->older : newest) = tensor->older;
    --alive;
}

void hold(Tensor* tensor, Node* node) {
    Py_INCREF(as_object(node));
    ++node->held;
    tensor->node = node;
}

// What the tensor held; the caller drops it when the tensor is consistent again.
Ref<Node> let_go(Tensor* tensor) {
    Ref<Node> node(std::exchange(tensor->node, nullptr));
    if (node) --node->held;
    return node;
}

void leave_views(Tensor* view) {
    if (!view->previous_view) return;
    view->previous_view->next_view = view->next_view;
    if (view->next_view) view->next_view->previous_view = view->previous_view;
    view->next_view = view->previous_view = nullptr;
}

void join_views(Tensor* view) {
    Tensor* owner = view->base;
    view->previous_view = owner;
    view->next_view = owner->next_view;
    if (owner->next_view) owner->next_view->previous_view = view;
    owner->next_view = view;
}

void replace_node(Tensor* owner, Node* node) {
    std::vector<Ref<Node>> dropped;
    while (Tensor* view = owner->next_view) {
        leave_views(view);
        dropped.push_back(let_go(view));
    }
    dropped.push_back(let_go(owner));
    hold(owner, node);
}

Ref<> new_tensor(const DtypeInfo* dtype, PyObject* shape, int64_t size) {
    Ref<> made(tensor_type->tp_alloc(tensor_type, 0));
    if (!made) return made;
    Tensor* tensor = self_tensor(made.get());
    tensor->dtype = dtype;
    tensor->shape = Py_NewRef(shape);
    tensor->size = size;
    enlist(tensor);
    return made;
}

std::vector<int64_t> contiguous_strides(PyObject* shape) {
    std::vector<int64_t> strides(static_cast<size_t>(rank_of(shape)));
    int64_t step = 1;
    for (Py_ssize_t k = rank_of(shape) - 1; k >= 0; --k) {
        strides[static_cast<size_t>(k)] = step;
        step *= std::max<int64_t>(extent_of(shape, k), 1);
    }
    return strides;
}

bool covers_base(const Tensor* base, PyObject* shape, PyObject* strides, int64_t offset) {
    if (offset != 0 || !same_shape(base->shape, shape)) return false;
    const std::vector<int64_t> expected = contiguous_strides(shape);
    for (Py_ssize_t k = 0; k < rank_of(shape); ++k)
        if (extent_of(shape, k) != 1 && extent_of(strides, k) != expected[static_cast<size_t>(k)])
            return false;
    return true;
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE)) Py_VISIT(Py_TYPE(self));
    // A base is older than its view and its own references lead to none, so a cycle always passes
    // through the attributes of a subclass, which clears them; there is nothing to clear here.
    Py_VISIT(reinterpret_cast<PyObject*>(self_tensor(self)->base));
    return 0;
}

void tensor_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Tensor* tensor = self_tensor(self);
    if (tensor->weak) PyObject_ClearWeakRefs(self);
    delist(tensor);
    if (tensor->base) leave_views(tensor);
    let_go(tensor);
    Py_XDECREF(reinterpret_cast<PyObject*>(tensor->base));
    Py_XDECREF(tensor->shape);
    Py_XDECREF(tensor->strides);
    Py_TYPE(self)->tp_free(self);
}

PyObject* tensor_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyErr_Format(PyExc_TypeError,
                 "[%s] a tensor is made by a function such as array, zeros or arange, not by its class",
                 type->tp_name);
    return nullptr;
}

PyObject* get_shape(PyObject* self, void*) { return Py_NewRef(self_tensor(self)->shape); }
PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(self_tensor(self)->dtype->object); }
PyObject* get_offset(PyObject* self, void*) { return PyLong_FromLongLong(self_tensor(self)->offset); }

PyObject* get_base(PyObject* self, void*) {
    Tensor* base = self_tensor(self)->base;
    return Py_NewRef(base ? reinterpret_cast<PyObject*>(base) : Py_None);
}

PyObject* get_strides(PyObject* self, void*) {
    const Tensor* tensor = self_tensor(self);
    if (tensor->strides) return Py_NewRef(tensor->strides);
    const std::vector<int64_t> strides = contiguous_strides(tensor->shape);
    return int_tuple(strides.data(), static_cast<Py_ssize_t>(strides.size())).release();
}

// Where this thread's writes to tensors are noted, with the nodes they replace.
thread_local PyObject* write_log = nullptr;

PyObject* get_node(PyObject* self, void*) {
    Node* node = tensor_node(self_tensor(self));
    return node ? Py_NewRef(as_object(node)) : nullptr;
}

int set_node(PyObject* self, PyObject* value, void*) {
    Tensor* tensor = self_tensor(self);
    if (!value || !is_node(value)) {
        PyErr_Format(PyExc_TypeError, "[node] expected a Node, given a %s",
                     Py_TYPE(value ? value : Py_None)->tp_name);
        return -1;
    }
    Node* node = reinterpret_cast<Node*>(value);
    if (tensor->base) {
        PyErr_SetString(PyExc_AttributeError,
                        "[node] expected an owner; a view's node is derived from its base's");
        return -1;
    }
    if (node->dtype != tensor->dtype || !same_shape(node->shape, tensor->shape)) {
        PyErr_Format(PyExc_ValueError, "[node] expected a node of shape %S and dtype %S, given %S and %S",
                     tensor->shape, tensor->dtype->object, node->shape, node->dtype->object);
        return -1;
    }
    if (node == tensor->node) return 0;
    if (write_log) {
        Ref<> entry(PyTuple_Pack(2, self, as_object(tensor->node)));
        if (!entry || PyList_Append(write_log, entry.get()) < 0) return -1;
    }
    replace_node(tensor, node);
    return flush_if_due() ? 0 : -1;
}

PyObject* get_pending(PyObject* self, void*) {
    const Tensor* tensor = self_tensor(self);
    const Node* node = (tensor->base ? tensor->base : tensor)->node;
    return PyBool_FromLong(is_pending(node));
}

PyGetSetDef tensor_properties[] = {
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"base", get_base, nullptr, "The owner that a view looks at, or None.", nullptr},
    {"strides", get_strides, nullptr, "In elements of the base's buffer.", nullptr},
    {"offset", get_offset, nullptr, "In elements of the base's buffer.", nullptr},
    {"node", get_node, set_node, "The present node.", nullptr},
    {"pending", get_pending, nullptr, "Whether the owner's node has no buffer yet.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject tensor_base_type() {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "pyasc.ops._graph.TensorBase";
    type.tp_doc = "A node of its own, or a strided view of a base tensor.";
    type.tp_basicsize = sizeof(Tensor);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    type.tp_new = tensor_new;
    type.tp_dealloc = tensor_dealloc;
    type.tp_traverse = tensor_traverse;
    type.tp_weaklistoffset = offsetof(Tensor, weak);
    type.tp_getset = tensor_properties;
    return type;
}

}  // namespace

PyTypeObject TensorType = tensor_base_type();

Node* tensor_node(Tensor* tensor) {
    if (tensor->node) return tensor->node;
    Tensor* owner = tensor->base;
    if (tensor->covers) return owner->node;
    if (owner->node->primitive->kind == Kind::View) {
        // A view's operand is never a view: the owner's is copied into a buffer of its own first.
        Node* seen = owner->node;
        Ref<Node> copy =
            record_node(primitives.cast, seen->dtype, seen->shape, seen->size, nullptr, &seen, 1);
        if (!copy) return nullptr;
        replace_node(owner, copy.get());
    }
    Ref<Node> node = view_node(owner->node, tensor->shape, tensor->size, tensor->strides, tensor->offset);
    if (!node) return nullptr;
    hold(tensor, node.get());
    join_views(tensor);
    return tensor->node;
}

Ref<> new_owner(Node* node) {
    Ref<> made = new_tensor(node->dtype, node->shape, node->size);
    if (made) hold(self_tensor(made.get()), node);
    return made;
}

Ref<> new_view(Tensor* base, PyObject* shape, int64_t size, PyObject* strides, int64_t offset) {
    if (base->base) {
        PyErr_SetString(PyExc_ValueError, "[view] expected an owner as the base, given a view");
        return {};
    }
    if (!region_fits(base->size, shape, strides, offset)) return {};
    Ref<> made = new_tensor(base->dtype, shape, size);
    if (!made) return made;
    Tensor* view = self_tensor(made.get());
    view->base = base;
    Py_INCREF(reinterpret_cast<PyObject*>(base));
    view->strides = Py_NewRef(strides);
    view->offset = offset;
    view->covers = covers_base(base, shape, strides, offset);
    return made;
}

Ref<Node> broadcast_node(Node* node, PyObject* shape, int64_t size) {
    if (same_shape(node->shape, shape)) return Ref<Node>::borrow(node);
    if (node->primitive->kind == Kind::Scalar)
        return record_node(primitives.full, node->dtype, shape, size, nullptr, &node, 1);
    const bool view = node->primitive->kind == Kind::View;
    const Py_ssize_t rank = rank_of(shape), extra = rank - rank_of(node->shape);
    std::vector<int64_t> own;
    int64_t offset = 0;
    Node* base = node;
    if (view) {
        PyObject* strides = PyTuple_GET_ITEM(node->attrs, 0);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(strides); ++k) own.push_back(extent_of(strides, k));
        offset = PyLong_AsLongLong(PyTuple_GET_ITEM(node->attrs, 1));
        base = node->operands[0];
    } else {
        own = contiguous_strides(node->shape);
    }
    std::vector<int64_t> strides(static_cast<size_t>(rank), 0);
    for (Py_ssize_t k = extra; k < rank; ++k)
        if (extent_of(node->shape, k - extra) == extent_of(shape, k))
            strides[static_cast<size_t>(k)] = own[static_cast<size_t>(k - extra)];
    Ref<> tuple = int_tuple(strides.data(), rank);
    return tuple ? view_node(base, shape, size, tuple.get(), offset) : Ref<Node>();
}

void set_tensor_type(PyTypeObject* type) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    PyTypeObject* replaced = std::exchange(tensor_type, type);
    if (replaced != &TensorType) Py_DECREF(reinterpret_cast<PyObject*>(replaced));
}

void log_writes(PyObject* list) {
    Ref<> replaced(std::exchange(write_log, list == Py_None ? nullptr : Py_NewRef(list)));
}

PyObject* live_tensors() {
    Ref<> result(PyList_New(0));
    for (Tensor* tensor = oldest; result && tensor; tensor = tensor->newer) {
        PyObject* object = reinterpret_cast<PyObject*>(tensor);
        // One that is being freed while its weak references are called is still in the list.
        if (Py_REFCNT(object) > 0 && PyList_Append(result.get(), object) < 0) return nullptr;
    }
    return result.release();
}

int64_t live_count() { return alive; }

}  // namespace pyasc
