// Recording an elementwise operation on tensors: the fast paths.
#include <algorithm>
#include <vector>

#include "tensor.hpp"

namespace pyasc {

namespace {

PyObject* promotion = nullptr;

// One side of an operation: what it is, in the form in which it was given.
struct Side {
    Tensor* tensor = nullptr;
    Ref<Node> node;  // where it was given, or made of a number
    PyObject* shape = nullptr;
    const DtypeInfo* dtype = nullptr;
    int64_t size = 1;

    bool number() const { return !tensor && node->primitive->kind == Kind::Scalar; }
};

bool take(PyObject* object, Side* side) {
    if (is_tensor(object)) {
        side->tensor = reinterpret_cast<Tensor*>(object);
        side->shape = side->tensor->shape;
        side->dtype = side->tensor->dtype;
        side->size = side->tensor->size;
        return true;
    }
    if (!is_node(object)) return false;
    side->node = Ref<Node>::borrow(reinterpret_cast<Node*>(object));
    side->shape = side->node->shape;
    side->dtype = side->node->dtype;
    side->size = side->node->size;
    return true;
}

// A Python number that keeps the other side's dtype. False where it does not, or does not fit it.
bool take_number(PyObject* object, const DtypeInfo* dtype, Side* side) {
    if (!keeps_dtype(dtype, object)) return false;
    uint64_t bits = 0;
    if (encode_number(dtype, object, &bits)) side->node = scalar_node(dtype, object, bits);
    if (!side->node) {
        PyErr_Clear();
        return false;
    }
    side->shape = side->node->shape;
    side->dtype = dtype;
    return true;
}

// Both sides of one dtype without asking the promotion rules.
bool take_fast(const PrimitiveInfo* primitive, PyObject* x, PyObject* y, Side* a, Side* b) {
    const bool left = take(x, a), right = take(y, b);
    if (left && right) return a->dtype == b->dtype && (primitive->kinds & kind_bit(a->dtype->kind));
    if (!left && !right) return false;
    const DtypeInfo* dtype = (left ? a : b)->dtype;
    if (!(primitive->kinds & kind_bit(dtype->kind))) return false;
    return left ? take_number(y, dtype, b) : take_number(x, dtype, a);
}

enum class Promoted { Error, NotTaken, Done };

Promoted take_promoted(const PrimitiveInfo* primitive, PyObject* x, PyObject* y, Side* a, Side* b,
                       Ref<>* keep) {
    if (!promotion) return Promoted::NotTaken;
    PyObject* arguments[] = {primitive->object, x, y};
    *keep = Ref<>(PyObject_Vectorcall(promotion, arguments, 3, nullptr));
    PyObject* pair = keep->get();
    if (!pair) return Promoted::Error;
    if (pair == Py_NotImplemented) return Promoted::NotTaken;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "[%U] expected two operands from the promotion rules, given a %s",
                     primitive->name, Py_TYPE(pair)->tp_name);
        return Promoted::Error;
    }
    *a = Side();
    *b = Side();
    if (!take(PyTuple_GET_ITEM(pair, 0), a) || !take(PyTuple_GET_ITEM(pair, 1), b) || a->dtype != b->dtype) {
        PyErr_Format(PyExc_TypeError,
                     "[%U] expected two operands of one dtype from the promotion rules, given a %s and a %s",
                     primitive->name, Py_TYPE(PyTuple_GET_ITEM(pair, 0))->tp_name,
                     Py_TYPE(PyTuple_GET_ITEM(pair, 1))->tp_name);
        return Promoted::Error;
    }
    return Promoted::Done;
}

Ref<> broadcast_shapes(const PrimitiveInfo* primitive, const Side& a, const Side& b, int64_t* size) {
    const Py_ssize_t rank_a = rank_of(a.shape), rank_b = rank_of(b.shape), rank = std::max(rank_a, rank_b);
    std::vector<int64_t> extents(static_cast<size_t>(rank));
    for (Py_ssize_t k = 0; k < rank; ++k) {
        const int64_t x = k < rank_a ? extent_of(a.shape, rank_a - 1 - k) : 1;
        const int64_t y = k < rank_b ? extent_of(b.shape, rank_b - 1 - k) : 1;
        if (x != y && x != 1 && y != 1) {
            PyErr_Format(shape_error, "[%U] expected shapes that broadcast together, given %S and %S",
                         primitive->name, a.shape, b.shape);
            return {};
        }
        extents[static_cast<size_t>(rank - 1 - k)] = x == 1 ? y : x;
    }
    Ref<> shape = int_tuple(extents.data(), rank);
    return shape ? checked_shape(shape.get(), a.dtype->itemsize, size) : Ref<>();
}

// The side as an operand of a node of this shape.
Ref<Node> operand(const Side& side, PyObject* shape, int64_t size) {
    if (!side.tensor && (side.number() || same_shape(side.shape, shape)))
        return Ref<Node>::borrow(side.node.get());
    Node* node = side.tensor ? tensor_node(side.tensor) : side.node.get();
    return node ? broadcast_node(node, shape, size) : Ref<Node>();
}

PyObject* finished(Ref<Node> node) {
    if (!node) return nullptr;
    Ref<> tensor = new_owner(node.get());
    return tensor && flush_if_due() ? tensor.release() : nullptr;
}

}  // namespace

void set_promotion(PyObject* function) {
    Ref<> replaced(std::exchange(promotion, function == Py_None ? nullptr : Py_NewRef(function)));
}

PyObject* unary(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3 || !is_tensor(arguments[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "unary(primitive, x, dtype) expects a primitive, a tensor and a dtype");
        return nullptr;
    }
    const PrimitiveInfo* primitive = primitive_info(arguments[0]);
    Tensor* tensor = reinterpret_cast<Tensor*>(arguments[1]);
    const DtypeInfo* dtype = primitive ? dtype_info(arguments[2]) : nullptr;
    Node* node = dtype ? tensor_node(tensor) : nullptr;
    if (!node) return nullptr;
    int64_t size = node->size;
    // A wider result may pass the limit that its operand keeps.
    if (dtype->itemsize > node->dtype->itemsize && !checked_shape(node->shape, dtype->itemsize, &size))
        return nullptr;
    return finished(record_node(primitive, dtype, node->shape, size, nullptr, &node, 1));
}

PyObject* binary(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    const bool by_name =
        named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "result") == 0;
    if (count < 3 || count + named > 4 || (named && !by_name)) {
        PyErr_SetString(PyExc_TypeError,
                        "binary(primitive, x, y, result=None) expects three or four arguments");
        return nullptr;
    }
    const PrimitiveInfo* primitive = primitive_info(arguments[0]);
    if (!primitive) return nullptr;
    const DtypeInfo* result = nullptr;
    if (count + named == 4 && arguments[3] != Py_None && !(result = dtype_info(arguments[3]))) return nullptr;

    Side a, b;
    Ref<> keep;
    if (!take_fast(primitive, arguments[1], arguments[2], &a, &b)) {
        switch (take_promoted(primitive, arguments[1], arguments[2], &a, &b, &keep)) {
            case Promoted::Error:
                return nullptr;
            case Promoted::NotTaken:
                return Py_NewRef(Py_NotImplemented);
            case Promoted::Done:
                break;
        }
    }
    Ref<> shape;
    int64_t size = 0;
    if (same_shape(a.shape, b.shape) || (!b.tensor && b.number())) {
        shape = Ref<>::borrow(a.shape);
        size = a.size;
    } else if (!a.tensor && a.number()) {
        shape = Ref<>::borrow(b.shape);
        size = b.size;
    } else if (!(shape = broadcast_shapes(primitive, a, b, &size))) {
        return nullptr;
    }
    Ref<Node> x = operand(a, shape.get(), size);
    Ref<Node> y = x ? operand(b, shape.get(), size) : Ref<Node>();
    if (!y) return nullptr;
    Node* const operands[] = {x.get(), y.get()};
    return finished(
        record_node(primitive, result ? result : a.dtype, shape.get(), size, nullptr, operands, 2));
}

}  // namespace pyasc
