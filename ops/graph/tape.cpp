#include "tape.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "node.hpp"

namespace pyasc {

namespace {

struct Tape {
    PyObject_HEAD PyObject* key;
    PyObject* nodes;
    PyObject* leaves;
    PyObject* scalars;
    PyObject* outputs;
    PyObject* donatable;
    // The operands of node n are positions[starts[n]] … positions[starts[n + 1] - 1].
    std::vector<uint32_t> starts;
    std::vector<uint32_t> positions;
};

uint64_t epoch = 0;

template <class T>
void append(std::string* key, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof value);
    key->append(bytes, sizeof bytes);
}

void append_text(std::string* key, const char* text, Py_ssize_t length) {
    append(key, static_cast<uint64_t>(length));
    key->append(text, static_cast<size_t>(length));
}

Tape* self_tape(PyObject* self) { return reinterpret_cast<Tape*>(self); }
Node* node_at(const Tape* tape, Py_ssize_t position) {
    return reinterpret_cast<Node*>(PyTuple_GET_ITEM(tape->nodes, position));
}

// What linearise works out about each node.
struct Facts {
    uint32_t users = 0;  // references from operands on the tape
    bool output = false;
    bool lasting =
        false;  // stays pending and alive after the tape has run, so its operands must keep their values
    bool donatable = false;
};

std::vector<std::pair<uint64_t, Node*>> collect(PyObject* roots) {
    ++epoch;
    std::vector<std::pair<uint64_t, Node*>> found;
    const auto reach = [&](Node* node) {
        if (node->epoch == epoch) return;
        node->epoch = epoch;
        found.emplace_back(node->order, node);
    };
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots); ++k)
        reach(reinterpret_cast<Node*>(PySequence_Fast_GET_ITEM(roots, k)));
    for (size_t n = 0; n < found.size(); ++n) {
        Node* node = found[n].second;
        for (uint32_t k = 0; k < node->count; ++k) reach(node->operands[k]);
    }
    // Mostly found newest first.
    std::reverse(found.begin(), found.end());
    if (!std::is_sorted(found.begin(), found.end())) std::sort(found.begin(), found.end());
    for (size_t n = 0; n < found.size(); ++n) found[n].second->position = static_cast<uint32_t>(n);
    return found;
}

// Nobody but the tape looks at the leaf's buffer: -1 with an exception set.
int sole_user(const Node* leaf) {
    PyObject* buffer = leaf->payload;
    if (leaf->held || Py_REFCNT(buffer) > 1) return 0;
    Ref<> exported(PyObject_GetAttrString(buffer, "exported"));
    if (exported) {
        const int seen = PyObject_IsTrue(exported.get());
        return seen < 0 ? -1 : !seen;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 1;
}

bool find_donatable(const std::vector<std::pair<uint64_t, Node*>>& found, std::vector<Facts>* facts) {
    for (const auto& [order, node] : found)
        for (uint32_t k = 0; k < node->count; ++k) ++(*facts)[node->operands[k]->position].users;
    for (size_t n = found.size(); n-- > 0;) {
        const Node* node = found[n].second;
        Facts& fact = (*facts)[n];
        const bool outside = Py_REFCNT(node) > static_cast<Py_ssize_t>(fact.users);
        if (!is_pending(node)) {
            if (fact.output || fact.lasting || outside) continue;
            const int sole = sole_user(node);
            if (sole < 0) return false;
            fact.donatable = sole == 1;
            continue;
        }
        fact.lasting = !fact.output && (fact.lasting || outside);
        if (!fact.lasting) continue;
        for (uint32_t k = 0; k < node->count; ++k) (*facts)[node->operands[k]->position].lasting = true;
    }
    return true;
}

// Everything has a length before it or a fixed one, so that different structures differ.
bool append_node(const Node* node, const Facts& facts, std::string* key) {
    const uint32_t rank = static_cast<uint32_t>(rank_of(node->shape));
    append(key, node->primitive->id);
    append(key, node->dtype->code);
    append(key, static_cast<uint8_t>(facts.output | facts.donatable << 1 | (node->attrs != nullptr) << 2));
    append(key, rank);
    append(key, node->count);
    for (uint32_t k = 0; k < rank; ++k) append(key, extent_of(node->shape, k));
    for (uint32_t k = 0; k < node->count; ++k) append(key, node->operands[k]->position);
    return !node->attrs || append_attrs(node->attrs, key);
}

PyObject* int_tuple32(const std::vector<uint32_t>& values) {
    PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
    for (size_t k = 0; result && k < values.size(); ++k) {
        PyObject* value = PyLong_FromUnsignedLong(values[k]);
        if (!value) {
            Py_DECREF(result);
            return nullptr;
        }
        PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(k), value);
    }
    return result;
}

bool fill(Tape* tape, PyObject* roots, bool keep_held) {
    const std::vector<std::pair<uint64_t, Node*>> found = collect(roots);
    const size_t count = found.size();
    std::vector<Facts> facts(count);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots); ++k)
        facts[reinterpret_cast<Node*>(PySequence_Fast_GET_ITEM(roots, k))->position].output = true;
    std::vector<uint32_t> leaves, outputs;
    std::string scalars;
    for (size_t n = 0; n < count; ++n) {
        const Node* node = found[n].second;
        const Kind kind = node->primitive->kind;
        const bool computed =
            kind != Kind::Leaf && kind != Kind::Scalar && kind != Kind::Generator && kind != Kind::View;
        if (keep_held && node->held && computed) facts[n].output = true;
        if (kind == Kind::Leaf) leaves.push_back(static_cast<uint32_t>(n));
        if (kind == Kind::Scalar) append(&scalars, node->bits);
        if (facts[n].output) outputs.push_back(static_cast<uint32_t>(n));
    }
    if (!find_donatable(found, &facts)) return false;

    std::string key;
    key.reserve(count * 48 + 8);
    tape->starts.reserve(count + 1);
    tape->nodes = PyTuple_New(static_cast<Py_ssize_t>(count));
    tape->donatable = PyTuple_New(static_cast<Py_ssize_t>(leaves.size()));
    if (!tape->nodes || !tape->donatable) return false;
    append(&key, static_cast<uint64_t>(count));
    Py_ssize_t leaf = 0;
    for (size_t n = 0; n < count; ++n) {
        Node* node = found[n].second;
        PyTuple_SET_ITEM(tape->nodes, static_cast<Py_ssize_t>(n), Py_NewRef(as_object(node)));
        if (!append_node(node, facts[n], &key)) return false;
        tape->starts.push_back(static_cast<uint32_t>(tape->positions.size()));
        for (uint32_t k = 0; k < node->count; ++k) tape->positions.push_back(node->operands[k]->position);
        if (!is_pending(node)) PyTuple_SET_ITEM(tape->donatable, leaf++, PyBool_FromLong(facts[n].donatable));
    }
    tape->starts.push_back(static_cast<uint32_t>(tape->positions.size()));
    tape->key = PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size()));
    tape->scalars = PyBytes_FromStringAndSize(scalars.data(), static_cast<Py_ssize_t>(scalars.size()));
    tape->leaves = int_tuple32(leaves);
    tape->outputs = int_tuple32(outputs);
    return tape->key && tape->scalars && tape->leaves && tape->outputs;
}

void tape_dealloc(PyObject* self) {
    Tape* tape = self_tape(self);
    for (PyObject* part :
         {tape->key, tape->nodes, tape->leaves, tape->scalars, tape->outputs, tape->donatable})
        Py_XDECREF(part);
    tape->starts.~vector();
    tape->positions.~vector();
    PyObject_Free(tape);
}

PyObject* position_of(PyObject* self, PyObject* argument) {
    const Tape* tape = self_tape(self);
    if (is_node(argument)) {
        const uint64_t order = reinterpret_cast<Node*>(argument)->order;
        Py_ssize_t low = 0, high = PyTuple_GET_SIZE(tape->nodes);
        while (low < high) {
            const Py_ssize_t middle = (low + high) / 2;
            (node_at(tape, middle)->order < order ? low : high) =
                node_at(tape, middle)->order < order ? middle + 1 : middle;
        }
        if (low < PyTuple_GET_SIZE(tape->nodes) && PyTuple_GET_ITEM(tape->nodes, low) == argument)
            return PyLong_FromSsize_t(low);
    }
    PyErr_Format(PyExc_KeyError, "[position] expected a node of the tape, given a %s",
                 Py_TYPE(argument)->tp_name);
    return nullptr;
}

PyObject* operands_of(PyObject* self, PyObject* argument) {
    const Tape* tape = self_tape(self);
    const Py_ssize_t position = PyNumber_AsSsize_t(argument, PyExc_IndexError);
    if (position == -1 && PyErr_Occurred()) return nullptr;
    if (position < 0 || position >= PyTuple_GET_SIZE(tape->nodes)) {
        PyErr_Format(PyExc_IndexError, "[operands] expected a position below %zd, given %zd",
                     PyTuple_GET_SIZE(tape->nodes), position);
        return nullptr;
    }
    const auto start = tape->positions.begin();
    const size_t n = static_cast<size_t>(position);
    return int_tuple32({start + tape->starts[n], start + tape->starts[n + 1]});
}

template <PyObject* Tape::* part>
PyObject* get(PyObject* self, void*) {
    return Py_NewRef(self_tape(self)->*part);
}

PyGetSetDef tape_properties[] = {
    {"key", get<&Tape::key>, nullptr, "The structure; equal keys, same plan.", nullptr},
    {"nodes", get<&Tape::nodes>, nullptr, "In recording order.", nullptr},
    {"leaves", get<&Tape::leaves>, nullptr, "Positions of the LEAF nodes.", nullptr},
    {"scalars", get<&Tape::scalars>, nullptr, "8 bytes for each SCALAR node.", nullptr},
    {"outputs", get<&Tape::outputs>, nullptr, "Positions of the nodes to keep.", nullptr},
    {"donatable", get<&Tape::donatable>, nullptr, "For each leaf, whether its buffer may be written.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef tape_methods[] = {
    {"position", position_of, METH_O, "The position of a node."},
    {"operands", operands_of, METH_O, "Positions of the operands of the node at a position."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject tape_type() {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "pyasc.ops._graph.Tape";
    type.tp_doc = "What linearise finds below some roots, in recording order.";
    type.tp_basicsize = sizeof(Tape);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_dealloc = tape_dealloc;
    type.tp_methods = tape_methods;
    type.tp_getset = tape_properties;
    return type;
}

}  // namespace

PyTypeObject TapeType = tape_type();

bool append_attrs(PyObject* attrs, std::string* key, int depth) {
    if (PyTuple_CheckExact(attrs)) {
        if (depth == 32) {
            PyErr_SetString(PyExc_TypeError, "[record] attrs are nested more than 32 deep");
            return false;
        }
        key->push_back('(');
        append(key, static_cast<uint64_t>(PyTuple_GET_SIZE(attrs)));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(attrs); ++k)
            if (!append_attrs(PyTuple_GET_ITEM(attrs, k), key, depth + 1)) return false;
        return true;
    }
    if (attrs == Py_None || PyBool_Check(attrs)) {
        key->push_back(attrs == Py_None ? 'n' : attrs == Py_True ? 't' : 'f');
        return true;
    }
    if (PyLong_CheckExact(attrs)) {
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(attrs, &overflow);
        if (!overflow) {
            key->push_back('i');
            append(key, value);
            return true;
        }
        Ref<> digits(PyNumber_ToBase(attrs, 16));
        Py_ssize_t length = 0;
        const char* text = digits ? PyUnicode_AsUTF8AndSize(digits.get(), &length) : nullptr;
        if (!text) return false;
        key->push_back('I');
        append_text(key, text, length);
        return true;
    }
    if (PyFloat_CheckExact(attrs)) {
        key->push_back('d');
        append(key, PyFloat_AS_DOUBLE(attrs));
        return true;
    }
    if (PyUnicode_CheckExact(attrs)) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_AsUTF8AndSize(attrs, &length);
        if (!text) return false;
        key->push_back('s');
        append_text(key, text, length);
        return true;
    }
    const DtypeInfo* dtype = dtype_info(attrs);
    if (!dtype) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(
                PyExc_TypeError,
                "[record] expected attrs of int, float, bool, str, None, dtype and tuples, given a %s",
                Py_TYPE(attrs)->tp_name);
        return false;
    }
    key->push_back('y');
    key->push_back(static_cast<char>(dtype->code));
    return true;
}

PyObject* linearise(PyObject* given, bool keep_held) {
    Ref<> roots(PySequence_Fast(given, "[linearise] expected a list of nodes"));
    if (!roots) return nullptr;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots.get()); ++k) {
        PyObject* root = PySequence_Fast_GET_ITEM(roots.get(), k);
        if (!is_node(root)) {
            PyErr_Format(PyExc_TypeError, "[linearise] expected a list of nodes, given a %s in it",
                         Py_TYPE(root)->tp_name);
            return nullptr;
        }
    }
    Ref<Tape> tape(PyObject_New(Tape, &TapeType));
    if (!tape) return nullptr;
    tape->key = tape->nodes = tape->leaves = tape->scalars = tape->outputs = tape->donatable = nullptr;
    new (&tape->starts) std::vector<uint32_t>();
    new (&tape->positions) std::vector<uint32_t>();
    try {
        return fill(tape.get(), roots.get(), keep_held) ? tape.release_object() : nullptr;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

}  // namespace pyasc
