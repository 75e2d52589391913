// What the extension module has for devices.
#pragma once

#include <pybind11/pybind11.h>

namespace pyasc {

void define_devices(pybind11::module_& module);

}  // namespace pyasc
