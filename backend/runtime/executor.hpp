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
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "buffer.hpp"
#include "copy.hpp"
#include "device_code.hpp"

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

struct DeviceAllocate {
    uint32_t slot;
    size_t nbytes;
    npu::Lane lane;  // of the first launch that uses it
};

struct Upload {
    uint32_t slot;
};

struct Download {
    uint32_t slot;
};

struct Written {
    uint32_t slot;
    bool on_host;
};

struct DeviceLaunch {
    struct Operand {
        uint32_t slot;
        bool written;
    };
    struct Pointer {
        uint32_t at;  // bytes into the block of arguments
        uint32_t slot;
        int64_t offset;
    };
    // In a launch's status, of each of its blocks; the first two report a fault.
    static constexpr size_t status_words = 8;
    pybind11::object held;
    DeviceCode* code;
    npu::Lane lane;
    uint32_t blocks;
    std::string arguments;
    std::vector<Operand> operands;  // each once
    std::vector<Pointer> pointers;
    std::vector<Patch> patches;
    std::optional<std::pair<uint32_t, size_t>> workspace;
    int64_t status;        // bytes into the block; -1: none
    size_t status_offset;  // of this launch's in the run's memory for faults
    int64_t label;
};

}  // namespace step

// A launch on a device is on the heap: it is larger than the rest.
using Step = std::variant<step::Allocate, step::Free, step::Launch, step::StridedCopy, step::Call,
                          step::DeviceAllocate, step::Upload, step::Download, step::Written,
                          std::unique_ptr<step::DeviceLaunch>>;

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
    void device_allocate(uint32_t slot, size_t nbytes, int device);
    void upload(uint32_t slot, int device);
    void download(uint32_t slot);
    void written(uint32_t slot, int device);
    void device_launch(pybind11::object code, int device, int lane, uint32_t blocks,
                       pybind11::bytes arguments,
                       const std::vector<std::tuple<uint32_t, uint32_t, int64_t>>& pointers,
                       const std::vector<std::tuple<uint32_t, uint32_t, uint32_t, std::string>>& patches,
                       const std::vector<uint32_t>& outputs,
                       std::optional<std::pair<uint32_t, size_t>> workspace, int64_t status, int64_t label);

    // receivers, if not None, are as many objects as outputs: each one's settle(buffer) is called.
    // log, if not None, is a list to which the times of the steps are appended. marks, if any, are names of
    // the ranges around the launches and calls, in order.
    pybind11::object run(pybind11::handle leaves, pybind11::bytes scalars, pybind11::handle receivers,
                         pybind11::handle log, const std::vector<std::string>& marks);

    bool device_steps() const { return device_ >= 0; }
    uint64_t last_run() const { return last_run_; }

  private:
    class Run;

    // Slots that name one buffer share the first of them, their root.
    uint32_t root(uint32_t slot, const char* operation) const;
    void add(Step step);
    void need_scalars(const std::vector<uint32_t>& indices);
    void begin(uint32_t slot, const char* operation, Step step);
    void use_device(int device, const char* operation);

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
    int device_ = -1;                         // that its steps use
    size_t status_bytes_ = 0;                 // of all launches that report faults there
    std::vector<size_t> awaiting_first_use_;  // for each root, its DeviceAllocate, or none
    uint64_t last_run_ = 0;
};

// Returns the one before; None for none.
pybind11::object set_fault_handler(pybind11::object handler);

// The code of the fault that a scalar argument is which does not fit its place in a block of arguments.
constexpr int64_t wide_scalar = -1;

// Wait after each launch on a device, letting signals through.
void set_blocking(bool blocking);

}  // namespace pyasc
