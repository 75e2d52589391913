// How a launch calls a kernel, whatever its parameters are.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace sim {

// What a kernel takes in one place.
struct Parameter {
    uint32_t bytes;
    uint32_t pointer;  // 1: an address in global memory
};

template <typename... Parameters, size_t... numbers>
void call_with(void (*kernel)(Parameters...), void* const* arguments, std::index_sequence<numbers...>) {
    kernel(*static_cast<std::decay_t<Parameters>*>(arguments[numbers])...);
    (void)arguments;
}

template <typename... Parameters>
void call(void (*kernel)(Parameters...), void* const* arguments) {
    call_with(kernel, arguments, std::index_sequence_for<Parameters...>());
}

// Writes at most `limit` of a kernel's parameters, returns how many there are.
template <typename... Parameters>
uint32_t describe(void (*)(Parameters...), Parameter* into, uint32_t limit) {
    const Parameter all[] = {
        {sizeof(std::decay_t<Parameters>), std::is_pointer_v<std::decay_t<Parameters>>}..., {}};
    for (uint32_t i = 0; i < sizeof...(Parameters) && i < limit; ++i) into[i] = all[i];
    return sizeof...(Parameters);
}

}  // namespace sim
