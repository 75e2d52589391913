// The plan executor: a plan as a straight list of steps over slots of memory.
//
// The ABI of a kernel's function:
//
//     void kernel(void* const* pointers, const int64_t* integers, const uint64_t* scalars,
//                 int64_t begin, int64_t end, void* scratch, void* thread_scratch, int64_t* status);
//
// clang-format off
// pointers        for each access of the kernel, its operand's buffer plus the access's byte offset
// integers        extents, strides and whatever else the code reads, in the backend's own order
// scalars         for each scalar argument its value in its dtype, in the low bytes, the rest 0
// begin, end      the work units to do: at most `grain` of them, begin a multiple of it
// scratch         memory shared by all threads and phases of the launch, aligned to 128 bytes, not cleared
// thread_scratch  memory of this thread, aligned to 128 bytes, not cleared; nothing is kept there between calls
// status          two integers of this call's own, 0 when it starts. A kernel that meets a fault sets status[0]
//                 to a code other than 0 and status[1] to a value, unless status[0] is set already, and goes on
//                 without touching memory out of bounds. Of a launch's faults the one with the smallest begin
//                 is reported.
// clang-format on
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "buffer.hpp"
#include "copy.hpp"

namespace pyasc {

// Part of every kernel's key: to be raised when the ABI changes.
constexpr int kernel_abi = 1;

using Kernel = void (*)(void* const* pointers, const int64_t* integers, const uint64_t* scalars,
                        int64_t begin, int64_t end, void* scratch, void* thread_scratch, int64_t* status);

struct Fault {
    int64_t begin = -1;  // -1: none
    int64_t code = 0;
    int64_t value = 0;
};

namespace step {

struct Allocate {
    uint32_t slot;
    size_t nbytes;
};

struct Free {
    uint32_t slot;
};

struct Launch {
    struct Phase {
        Kernel function;
        int64_t units;
        int64_t grain;
    };
    struct Pointer {
        uint32_t slot;
        int64_t offset;
    };
    std::vector<Phase> phases;
    std::vector<Pointer> pointers;
    std::vector<int64_t> integers;
    std::vector<uint32_t> scalars;
    size_t scratch;
    size_t thread_scratch;
    int64_t label;
};

struct StridedCopy {
    uint32_t target;
    int64_t target_offset;
    uint32_t source;
    int64_t source_offset;
    Copy copy;
};

struct Call {
    pybind11::object function;
    std::vector<uint32_t> slots;
    std::vector<uint32_t> scalars;
};

}  // namespace step

using Step = std::variant<step::Allocate, step::Free, step::Launch, step::StridedCopy, step::Call>;

class Program {
  public:
    Program(uint32_t inputs, uint32_t slots, const std::vector<uint32_t>& outputs);

    void allocate(uint32_t slot, size_t nbytes);
    void alias(uint32_t slot, uint32_t source);
    void free(uint32_t slot);
    void launch(const std::vector<std::tuple<uintptr_t, int64_t, int64_t>>& phases,
                const std::vector<std::pair<uint32_t, int64_t>>& pointers, std::vector<int64_t> integers,
                std::vector<uint32_t> scalars, size_t scratch, size_t thread_scratch, int64_t label);
    void copy(uint32_t target, int64_t target_offset, const std::vector<int64_t>& target_strides,
              uint32_t source, int64_t source_offset, const std::vector<int64_t>& source_strides,
              const std::vector<int64_t>& extents, int64_t itemsize);
    void call(pybind11::object function, const std::vector<uint32_t>& slots, std::vector<uint32_t> scalars,
              int64_t label);

    // receivers, if not None, are as many objects as outputs: each one's settle(buffer) is called.
    // log, if not None, is a list to which the times of the steps are appended.
    pybind11::object run(pybind11::handle leaves, pybind11::bytes scalars, pybind11::handle receivers,
                         pybind11::handle log);

  private:
    class Run;

    // Slots that name one buffer share the first of them, their root.
    uint32_t root(uint32_t slot, const char* operation) const;
    void add(Step step);
    void need_scalars(const std::vector<uint32_t>& indices);

    static constexpr uint32_t nothing = UINT32_MAX;

    uint32_t inputs_;
    std::vector<uint32_t> outputs_;
    std::vector<uint32_t> roots_;  // of each slot, or nothing
    std::vector<uint32_t> names_;  // for each root, the slots that name it
    std::vector<bool> is_output_;
    std::vector<uint32_t> output_roots_;
    std::vector<Step> steps_;
    size_t scalars_ = 0;  // that a run must bring
    size_t donation_;     // the first step after which an input may have been written
    bool started_ = false;
};

// Returns the one before; None for none.
pybind11::object set_fault_handler(pybind11::object handler);
void set_memory_error(pybind11::object type);

// The Python exception of an OutOfMemory.
[[noreturn]] void raise_memory_error(const OutOfMemory& error);

}  // namespace pyasc
