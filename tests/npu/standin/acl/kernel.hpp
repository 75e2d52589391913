// What a compiled kernel of the stand-in compiler says of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace standin {

struct Parameter {
    uint32_t offset, bytes;  // in the block of arguments
    uint32_t pointer;        // 1: an address
};

struct Kernel {
    const char* name;
    void (*call)(void* const* arguments);
    const Parameter* parameters;
    uint32_t count;
    uint32_t block_bytes;  // of its arguments
    uint32_t kind;         // 0: vector cores, 1: cube cores, 2: both
    uint32_t vectors;      // to a cube core
    uint32_t whole;        // 1: the compiler's own launch gives it the sync address
    uint32_t waits;        // 1: its cores wait for each other, and need it
};

struct Table {
    uint32_t version;
    uint32_t count;
    const Kernel* kernels;
};
constexpr uint32_t table_version = 2;

}  // namespace standin

// Exported by libascendcl.so for launches that are compiled into a library of the host.
extern "C" int standin_launch(const standin::Kernel* kernel, uint32_t blocks, void* stream,
                              const void* arguments, size_t bytes);
// A kernel that was given the address for signals between cores.
extern "C" void standin_sync_address(uint64_t address);
