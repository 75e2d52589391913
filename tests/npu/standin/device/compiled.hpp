// What the stand-in compiler adds to a source: what its kernels take, and launches from the host.
#pragma once

#include "kernel.hpp"
#include "kernel_operator.h"

namespace standin {

constexpr uint32_t aligned(uint32_t offset, uint32_t alignment) {
    alignment = alignment < 4 ? 4 : alignment;
    return (offset + alignment - 1) / alignment * alignment;
}

template <auto kernel>
struct Signature;

// Hidden, since kernels of one name in several libraries would share a `layout` (STB_GNU_UNIQUE) otherwise.
template <typename... Parameters, void (*kernel)(Parameters...)>
struct __attribute__((visibility("hidden"))) Signature<kernel> {
    static constexpr uint32_t count = sizeof...(Parameters);
    struct Layout {
        Parameter parameters[count + 1];
        uint32_t bytes;
    };
    static constexpr Layout make() {
        constexpr uint32_t sizes[] = {sizeof(std::decay_t<Parameters>)..., 0};
        constexpr uint32_t alignments[] = {alignof(std::decay_t<Parameters>)..., 0};
        constexpr bool pointers[] = {std::is_pointer_v<std::decay_t<Parameters>>..., false};
        Layout made{};
        uint32_t offset = 0;
        for (uint32_t i = 0; i < count; ++i) {
            offset = aligned(offset, alignments[i]);
            made.parameters[i] = {offset, sizes[i], pointers[i]};
            offset += sizes[i];
        }
        made.bytes = aligned(offset, 8);
        return made;
    }
    static constexpr Layout layout = make();
    static void call(void* const* arguments) { sim::call(kernel, arguments); }

    template <size_t... numbers>
    static void pack(uint8_t* block, std::index_sequence<numbers...>, std::decay_t<Parameters>... values) {
        (std::memcpy(block + layout.parameters[numbers].offset, &values, sizeof values), ...);
        (void)block;
    }
    // kernel<<<blocks, memory, stream>>>(values)
    static int launch(const Kernel& described, uint64_t blocks, void* stream,
                      std::decay_t<Parameters>... values) {
        uint8_t block[layout.bytes + 8] = {};
        pack(block, std::index_sequence_for<Parameters...>(), values...);
        return standin_launch(&described, static_cast<uint32_t>(blocks), stream, block, layout.bytes);
    }
};

template <auto kernel>
constexpr Kernel describe(const char* name, uint32_t kind, uint32_t vectors, bool whole, bool waits = false) {
    using Of = Signature<kernel>;
    return {name, &Of::call, Of::layout.parameters, Of::count, Of::layout.bytes, kind, vectors, whole, waits};
}

template <auto kernel>
struct Launch {
    const char* name;
    uint32_t kind, vectors;
    template <typename... Values>
    void operator()(uint64_t blocks, void*, void* stream, Values... values) const {
        static const Kernel described = describe<kernel>(name, kind, vectors, true);
        Signature<kernel>::launch(described, blocks, stream, static_cast<Values>(values)...);
    }
};

}  // namespace standin

// The address that signals between cores go through.
inline void set_ffts_base_addr(uint64_t address) { standin_sync_address(address); }
namespace AscendC {
inline void SetSyncBaseAddr(uint64_t address) { standin_sync_address(address); }
}  // namespace AscendC
