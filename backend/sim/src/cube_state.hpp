// What the cube core remembers between instructions: its special registers and the unit flags of L0C.
#pragma once

#include <array>
#include <cstdint>

#include "ascendc/cube_instructions.hpp"

namespace sim {

struct CubeState {
    FeatureMap maps[2];  // left, right
    uint32_t padding = 0;
    uint32_t repeat_stride = 0, repeat_times = 1, repeat_mode = 0;
    bool hf32 = false, hf32_to_even = false;
    Local scales{};  // of the copies out of L0C
    bool has_scales = false;
    uint64_t scalar = 0;
    uint32_t matrices = 1, src_matrix_stride = 0, dst_matrix_stride = 0;
    // One for every 512 bytes of L0C: set where a result waits for Fixpipe; and who set or cleared it last.
    struct UnitFlag {
        bool set = false;
        uint32_t mmad = 0, fixpipe = 0;  // numbers on their pipes
    };
    std::array<UnitFlag, 512> unit_flags{};

    // The flags of `bytes` of L0C.
    template <typename F>
    void flags(uint32_t offset, uint64_t bytes, F&& f) {
        for (uint64_t i = offset / 512; i < (offset + bytes + 511) / 512 && i < unit_flags.size(); ++i)
            f(unit_flags[i], static_cast<uint32_t>(i * 512));
    }
};

// Of the core that runs.
CubeState& cube_state();

// A tensor at an address of the kernel's own choice, with all that follows it in its memory: what is padded
// to whole fractals may hang over the size that the kernel gave. Buffers end where they end.
Local overhanging(const Local& tensor);

}  // namespace sim
