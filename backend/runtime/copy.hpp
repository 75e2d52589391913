// Strided copies.
#pragma once

#include <cstdint>
#include <vector>

namespace pyasc {

struct Copy {
    struct Axis {
        int64_t extent;
        int64_t target;  // strides in bytes
        int64_t source;
    };

    // Axes merged where both sides are contiguous, the last one with the smallest step of the target.
    Copy(const std::vector<int64_t>& target_strides, const std::vector<int64_t>& source_strides,
         const std::vector<int64_t>& extents, int64_t itemsize);

    int64_t nbytes() const { return count * itemsize; }
    void run(char* target, const char* source) const;

    std::vector<Axis> axes;
    int64_t count = 1;  // of elements
    int64_t itemsize;
};

}  // namespace pyasc
