// What the trace knows of dtypes and primitives. Entries live as long as the process, so that a
// pointer to one is its identity.
#pragma once

#include <Python.h>

#include <cstdint>

namespace pyasc {

enum class Encoding : uint8_t {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex64,
    None,  // no Python number has a form of 8 bytes in it
};

struct DtypeInfo {
    PyObject* object;  // numpy.dtype
    int64_t itemsize;
    uint8_t code;
    char kind;  // as NumPy's; V for bfloat16
    Encoding encoding;
};

enum class Kind : uint8_t { Leaf, Scalar, Generator, Elementwise, View, Reduce, Gather, Update, Host };

struct PrimitiveInfo {
    PyObject* object;  // ops.primitives.Primitive
    PyObject* name;
    uint32_t kinds;  // the dtype kinds of its operands, a bit for each letter
    uint16_t id;
    Kind kind;
};

inline uint32_t kind_bit(char kind) { return 1u << (static_cast<unsigned char>(kind) & 31u); }

// The entry of a dtype (equal dtypes share one) or of a primitive; null with an exception set.
const DtypeInfo* dtype_info(PyObject* dtype);
const PrimitiveInfo* primitive_info(PyObject* primitive);

// The primitives that the trace itself records.
struct Primitives {
    const PrimitiveInfo* leaf;
    const PrimitiveInfo* scalar;
    const PrimitiveInfo* view;
    const PrimitiveInfo* full;
    const PrimitiveInfo* cast;
};
extern Primitives primitives;

// Imports NumPy and ops.primitives; false with an exception set.
bool load_tables();

// Bits of a Python number in a dtype, zero-padded to 8 bytes; false with an exception set.
bool encode_number(const DtypeInfo* dtype, PyObject* value, uint64_t* bits);

// Whether a Python number leaves the dtype of the tensor it meets as it is.
bool keeps_dtype(const DtypeInfo* dtype, PyObject* value);

}  // namespace pyasc
