// For programs with a host part: what `kernel<<<blocks, memory, stream>>>(…)` is turned into.
#pragma once

#include <cstdint>

namespace sim {

// `kind` as in sim/interface.hpp.
void launch_program(uint32_t kind, uint32_t vectors_per_block, uint32_t blocks, void (*body)(void*),
                    void* closure);

template <typename Body>
void launch(uint32_t kind, uint32_t vectors_per_block, uint64_t blocks, Body body) {
    launch_program(
        kind, vectors_per_block, static_cast<uint32_t>(blocks),
        [](void* closure) { (*static_cast<Body*>(closure))(); }, &body);
}

}  // namespace sim
