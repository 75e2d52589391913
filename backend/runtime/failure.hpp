// Failures of a device as Python exceptions. All of it with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "device.hpp"

namespace pyasc {

// Adds DeviceFailure to the module.
void define_device_failure(pybind11::module_& module);
// Returns the one before; None for none.
pybind11::object set_device_error_handler(pybind11::object handler);

[[noreturn]] void raise_failure(const npu::Failure& failure, int device);
// Of memory of the host, or of a device.
[[noreturn]] void raise_memory_error(const OutOfMemory& error, int device = -1);
void set_memory_error(pybind11::object type);

// What a function gives, its failures as Python exceptions.
template <class Function>
decltype(auto) on_device(int device, Function&& function) {
    try {
        return std::forward<Function>(function)();
    } catch (const npu::Failure& failure) {
        raise_failure(failure, device);
    } catch (const OutOfMemory& error) {
        raise_memory_error(error, device);
    }
}

}  // namespace pyasc
