#include "tables.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>

#include "reference.hpp"

namespace pyasc {

Primitives primitives;

namespace {

PyTypeObject* dtype_type = nullptr;
std::array<DtypeInfo, 255> dtypes;
int dtype_count = 0;

std::unordered_map<PyObject*, std::unique_ptr<PrimitiveInfo>> primitive_table;

const std::unordered_map<std::string, Encoding> encodings = {
    {"bool", Encoding::Bool},       {"int8", Encoding::Int8},           {"int16", Encoding::Int16},
    {"int32", Encoding::Int32},     {"int64", Encoding::Int64},         {"uint8", Encoding::UInt8},
    {"uint16", Encoding::UInt16},   {"uint32", Encoding::UInt32},       {"uint64", Encoding::UInt64},
    {"float16", Encoding::Float16}, {"bfloat16", Encoding::BFloat16},   {"float32", Encoding::Float32},
    {"float64", Encoding::Float64}, {"complex64", Encoding::Complex64},
};

const std::unordered_map<std::string, Kind> kinds = {
    {"leaf", Kind::Leaf},           {"scalar", Kind::Scalar},
    {"generator", Kind::Generator}, {"elementwise", Kind::Elementwise},
    {"view", Kind::View},           {"reduce", Kind::Reduce},
    {"gather", Kind::Gather},       {"update", Kind::Update},
    {"host", Kind::Host},
};

bool text_attribute(PyObject* object, const char* name, std::string* text) {
    Ref<> value(PyObject_GetAttrString(object, name));
    if (!value) return false;
    const char* characters = PyUnicode_AsUTF8(value.get());
    if (!characters) return false;
    *text = characters;
    return true;
}

const DtypeInfo* add_dtype(PyObject* dtype) {
    if (dtype_count == static_cast<int>(dtypes.size())) {
        PyErr_SetString(PyExc_TypeError, "[record] more than 255 different dtypes in one process");
        return nullptr;
    }
    std::string kind, name, order;
    Ref<> itemsize(PyObject_GetAttrString(dtype, "itemsize"));
    if (!itemsize || !text_attribute(dtype, "kind", &kind) || !text_attribute(dtype, "name", &name) ||
        !text_attribute(dtype, "byteorder", &order))
        return nullptr;
    const auto found = encodings.find(name);
    const bool native = order == "=" || order == "|";
    DtypeInfo& info = dtypes[dtype_count];
    info.object = Py_NewRef(dtype);
    info.itemsize = PyLong_AsLongLong(itemsize.get());
    info.code = static_cast<uint8_t>(dtype_count);
    info.kind = kind.empty() ? 'V' : kind[0];
    info.encoding = found != encodings.end() && native ? found->second : Encoding::None;
    ++dtype_count;
    return &info;
}

bool encode_signed(PyObject* value, int width, uint64_t* bits) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) return false;
    const long long limit = std::numeric_limits<long long>::max() >> (64 - width);
    if (overflow || number > limit || number < -limit - 1) {
        PyErr_Format(PyExc_OverflowError, "Python integer %R out of bounds for int%d", value, width);
        return false;
    }
    const uint64_t mask = ~uint64_t{0} >> (64 - width);
    *bits = static_cast<uint64_t>(number) & mask;
    return true;
}

bool encode_unsigned(PyObject* value, int width, uint64_t* bits) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) return false;
    unsigned long long magnitude = static_cast<unsigned long long>(number);
    bool fits = overflow == 0 && number >= 0;
    if (overflow > 0) {
        magnitude = PyLong_AsUnsignedLongLong(value);
        fits = !PyErr_Occurred();
        if (!fits) PyErr_Clear();
    }
    if (!fits || (width < 64 && magnitude >> width)) {
        PyErr_Format(PyExc_OverflowError, "Python integer %R out of bounds for uint%d", value, width);
        return false;
    }
    *bits = magnitude;
    return true;
}

// As NumPy: a float truncates, anything with an __index__ is taken as it is.
bool encode_integer(const DtypeInfo* dtype, PyObject* value, uint64_t* bits) {
    Ref<> integer;
    if (!PyLong_Check(value)) {
        integer = Ref<>(PyIndex_Check(value) ? PyNumber_Index(value) : PyNumber_Long(value));
        if (!integer) return false;
        value = integer.get();
    }
    const int width = static_cast<int>(dtype->itemsize) * 8;
    return dtype->kind == 'i' ? encode_signed(value, width, bits) : encode_unsigned(value, width, bits);
}

uint64_t float_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool encode_half(double value, uint64_t* bits) {
    unsigned char bytes[2];
    if (PyFloat_Pack2(value, reinterpret_cast<char*>(bytes), 1) == 0) {
        *bits = static_cast<uint64_t>(bytes[0] | (bytes[1] << 8));
        return true;
    }
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    *bits = value < 0 ? 0xFC00 : 0x7C00;
    return true;
}

uint64_t bfloat16_bits(double value) {
    const float narrow = static_cast<float>(value);
    const uint32_t bits = static_cast<uint32_t>(float_bits(narrow));
    if (std::isnan(narrow)) return (bits >> 16) | 0x40u;
    return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

}  // namespace

const DtypeInfo* dtype_info(PyObject* dtype) {
    for (int k = 0; k < dtype_count; ++k)
        if (dtypes[k].object == dtype) return &dtypes[k];
    if (!PyObject_TypeCheck(dtype, dtype_type)) {
        PyErr_Format(PyExc_TypeError, "[record] expected a numpy.dtype, given a %s", Py_TYPE(dtype)->tp_name);
        return nullptr;
    }
    for (int k = 0; k < dtype_count; ++k) {
        const int equal = PyObject_RichCompareBool(dtypes[k].object, dtype, Py_EQ);
        if (equal < 0) return nullptr;
        if (equal) return &dtypes[k];
    }
    return add_dtype(dtype);
}

const PrimitiveInfo* primitive_info(PyObject* primitive) {
    const auto known = primitive_table.find(primitive);
    if (known != primitive_table.end()) return known->second.get();
    std::string kind, dtype_kinds;
    Ref<> name(PyObject_GetAttrString(primitive, "name"));
    Ref<> kind_object(PyObject_GetAttrString(primitive, "kind"));
    if (!name || !kind_object || !text_attribute(kind_object.get(), "value", &kind) ||
        !text_attribute(primitive, "dtypes", &dtype_kinds))
        return nullptr;
    const auto found = kinds.find(kind);
    if (found == kinds.end()) {
        PyErr_Format(PyExc_ValueError, "[record] primitive %R has the unknown kind %s", primitive,
                     kind.c_str());
        return nullptr;
    }
    if (primitive_table.size() > std::numeric_limits<uint16_t>::max()) {
        PyErr_SetString(PyExc_ValueError, "[record] more than 65536 primitives in one process");
        return nullptr;
    }
    auto info = std::make_unique<PrimitiveInfo>();
    info->object = Py_NewRef(primitive);
    info->name = name.release();
    info->id = static_cast<uint16_t>(primitive_table.size());
    info->kind = found->second;
    info->kinds = 0;
    for (const char letter : dtype_kinds) info->kinds |= kind_bit(letter);
    return primitive_table.emplace(primitive, std::move(info)).first->second.get();
}

bool load_tables() {
    Ref<> numpy(PyImport_ImportModule("numpy"));
    Ref<> extended(PyImport_ImportModule("ml_dtypes"));
    Ref<> module(PyImport_ImportModule("pyasc.ops.primitives"));
    if (!numpy || !extended || !module) return false;
    dtype_type = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(numpy.get(), "dtype"));
    if (!dtype_type) return false;
    // The common ones first: they are looked up in this order.
    for (const char* name :
         {"float32", "bool", "int64", "float64", "int32", "uint8", "float16", "bfloat16"}) {
        PyObject* source = std::strcmp(name, "bfloat16") == 0 ? extended.get() : numpy.get();
        Ref<> type(PyObject_GetAttrString(source, name));
        Ref<> dtype(type ? PyObject_CallOneArg(reinterpret_cast<PyObject*>(dtype_type), type.get())
                         : nullptr);
        if (!dtype || !add_dtype(dtype.get())) return false;
    }
    const auto find = [&](const char* name) -> const PrimitiveInfo* {
        Ref<> primitive(PyObject_GetAttrString(module.get(), name));
        return primitive ? primitive_info(primitive.get()) : nullptr;
    };
    primitives = {find("LEAF"), find("SCALAR"), find("VIEW"), find("FULL"), find("CAST")};
    return !PyErr_Occurred();
}

bool encode_number(const DtypeInfo* dtype, PyObject* value, uint64_t* bits) {
    *bits = 0;
    switch (dtype->encoding) {
        case Encoding::Bool: {
            const int truth = PyObject_IsTrue(value);
            if (truth < 0) return false;
            *bits = static_cast<uint64_t>(truth);
            return true;
        }
        case Encoding::None:
            PyErr_Format(PyExc_TypeError, "[scalar] a Python number cannot be an argument of dtype %S",
                         dtype->object);
            return false;
        case Encoding::Complex64: {
            const Py_complex number = PyComplex_AsCComplex(value);
            if (number.real == -1.0 && PyErr_Occurred()) return false;
            *bits = float_bits(static_cast<float>(number.real)) | float_bits(static_cast<float>(number.imag))
                                                                      << 32;
            return true;
        }
        default:
            break;
    }
    if (dtype->kind == 'i' || dtype->kind == 'u') return encode_integer(dtype, value, bits);
    const double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) return false;
    switch (dtype->encoding) {
        case Encoding::Float64:
            std::memcpy(bits, &number, sizeof number);
            return true;
        case Encoding::Float32:
            *bits = float_bits(static_cast<float>(number));
            return true;
        case Encoding::Float16:
            return encode_half(number, bits);
        default:
            *bits = bfloat16_bits(number);
            return true;
    }
}

bool keeps_dtype(const DtypeInfo* dtype, PyObject* value) {
    switch (dtype->kind) {
        case 'b':
            return PyBool_Check(value);
        case 'i':
        case 'u':
            return PyLong_CheckExact(value) || PyBool_Check(value);
        case 'f':
        case 'V':
            if (dtype->encoding == Encoding::None) return false;
            return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value);
        default:
            return false;
    }
}

}  // namespace pyasc
