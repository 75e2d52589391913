// The sizes in which blocks are handed out: 12.5 % apart, so that a block fits requests of about its size.
#pragma once

#include <cstddef>

namespace pyasc {

inline size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// Classes 0 … 7 are multiples of the alignment; from there eight to each power of two. `first_power` is that
// of eight times the alignment.
template <size_t first_power>
struct SizeClasses {
    static constexpr size_t alignment = size_t{1} << (first_power - 3);

    static size_t of(size_t nbytes) {
        if (nbytes <= 8 * alignment) return nbytes == 0 ? 0 : (nbytes - 1) / alignment;
        const size_t power = 63 - static_cast<size_t>(__builtin_clzll(nbytes - 1));
        return 8 + (power - first_power) * 8 + ((nbytes - 1 - (size_t{1} << power)) >> (power - 3));
    }

    static size_t capacity(size_t index) {
        if (index < 8) return (index + 1) * alignment;
        const size_t power = first_power + (index - 8) / 8;
        return (size_t{1} << power) + ((index - 8) % 8 + 1) * (size_t{1} << (power - 3));
    }
};

}  // namespace pyasc
