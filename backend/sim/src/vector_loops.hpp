// The loops of the elementwise instructions: an operation on contiguous elements of one dtype.
#pragma once

#include "sim/vector.hpp"

namespace sim {

struct Operands {
    void* dst;
    const void* src0;
    const void* src1;
    uint64_t scalar;
};
using Loop = void (*)(const Operands& operands, int64_t count);

// For the dtype of the first source; nothing where the instruction does not take it.
Loop binary_loop(Binary operation, Dtype dst, Dtype src);
Loop scalar_loop(Scalar operation, Dtype dst, Dtype src);
Loop unary_loop(Unary operation, Dtype dtype);

}  // namespace sim
