"""The fixed files of an exported project: memory and launches of the device, comparison, build files.

What depends on the function is written by `export`. ``@NAME@`` is replaced there.
"""

from __future__ import annotations

DEVICE = r"""
// Memory of the device and its queue: an NPU's through ACL, or the host's where ON_SIMULATOR is defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#ifndef ON_SIMULATOR
#include "acl/acl.h"
#endif

using Bytes = std::vector<uint8_t>;

inline Bytes read_file(const std::string& path, size_t bytes) {
    std::ifstream file(path, std::ios::binary);
    Bytes data(bytes);
    if (!file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes)))
        throw std::runtime_error("expected " + std::to_string(bytes) + " bytes in " + path);
    return data;
}

#ifdef ON_SIMULATOR

class Device {};

class Buffer {
  public:
    Buffer(Device&, size_t bytes) : data_(bytes) {}
    uint8_t* address() { return data_.data(); }
    size_t bytes() const { return data_.size(); }
    void upload(const Bytes& data) { std::memcpy(data_.data(), data.data(), data_.size()); }
    Bytes download() const { return data_; }

  private:
    Bytes data_;
};

#else

inline void check(aclError error, const char* what) {
    if (error == ACL_SUCCESS) return;
    const char* message = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(what) + " failed with " + std::to_string(error) +
                             (message ? std::string(": ") + message : std::string()));
}

class Device {
  public:
    Device() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    ~Device() {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Device(const Device&) = delete;
    aclrtStream stream() const { return stream_; }
    void wait() const { check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream"); }

  private:
    aclrtStream stream_ = nullptr;
};

class Buffer {
  public:
    Buffer(Device&, size_t bytes) : bytes_(bytes) {
        check(aclrtMalloc(&address_, bytes + 32, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    ~Buffer() { aclrtFree(address_); }
    Buffer(const Buffer&) = delete;
    uint8_t* address() { return static_cast<uint8_t*>(address_); }
    size_t bytes() const { return bytes_; }
    void upload(const Bytes& data) {
        check(aclrtMemcpy(address_, bytes_, data.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    }
    Bytes download() const {
        Bytes data(bytes_);
        check(aclrtMemcpy(data.data(), bytes_, address_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
        return data;
    }

  private:
    void* address_ = nullptr;
    size_t bytes_;
};

#endif
"""

LAUNCH = r"""
// launch<kernel>(device, blocks, buffers…, tiling): of an NPU, or of pyasc's simulator.
#pragma once

#include <stdexcept>
#include <string>

#include "chip.hpp"
#include "device.hpp"

#ifdef ON_SIMULATOR

#include "sim/entry.hpp"
#include "sim/interface.hpp"

template <auto kernel>
void entry(void* const* arguments) {
    sim::call(kernel, arguments);
}

inline pyasc_sim_argument argument(Buffer& buffer) { return {buffer.address(), buffer.bytes(), 1, 0}; }

template <typename T>
pyasc_sim_argument argument(T& value) {
    return {&value, sizeof value, 0, 0};
}

template <auto kernel, typename... A>
void simulate(const char* name, uint32_t blocks, Cores cores, A&... given) {
    const pyasc_sim_argument arguments[] = {argument(given)...};
    pyasc_sim_launch description = simulated_chip();
    description.entry = entry<kernel>;
    description.arguments = arguments;
    description.count = sizeof...(given);
    description.blocks = blocks;
    description.kind = static_cast<uint32_t>(cores);
    description.vectors_per_block = 2;
    description.check = 1;
    description.move = 1;
    pyasc_sim_run* run = pyasc_sim_start(&description);
    while (!pyasc_sim_wait(run, 1000)) {
    }
    const char* message = nullptr;
    int32_t line = 0, core = 0;
    const int kind = pyasc_sim_finding(run, &message, &line, &core);
    const std::string text = message ? message : "";
    pyasc_sim_free(run);
    if (kind) throw std::runtime_error(std::string(name) + ", line " + std::to_string(line) + ": " + text);
}

#endif
"""

COMPARE = r"""
// How far results are from the golden data.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "device.hpp"

inline float half_to_float(uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const float fraction = static_cast<float>(bits & 1023);
    float value = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                  : exponent == 0 ? std::ldexp(fraction, -24)
                                  : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

inline float bfloat16_to_float(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

// The element as a double, for the dtypes that have one; whole numbers are compared by their bytes.
inline double number(const std::string& dtype, const uint8_t* at) {
    uint16_t narrow;
    std::memcpy(&narrow, at, sizeof narrow);
    if (dtype == "float16") return half_to_float(narrow);
    if (dtype == "bfloat16") return bfloat16_to_float(narrow);
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Prints a line; whether all elements are within the tolerance, relative and of the largest golden value.
inline bool compare(const std::string& name, const std::string& dtype, size_t itemsize, const Bytes& given,
                    const Bytes& golden, double tolerance) {
    const size_t count = golden.size() / itemsize;
    const bool is_float = dtype.find("float") != std::string::npos;
    double scale = 0, worst = 0;
    for (size_t n = 0; is_float && n < count; ++n) {
        const double value = std::fabs(number(dtype, &golden[n * itemsize]));
        if (std::isfinite(value) && value > scale) scale = value;
    }
    size_t wrong = 0, first = 0;
    for (size_t n = 0; n < count; ++n) {
        bool same = std::memcmp(&given[n * itemsize], &golden[n * itemsize], itemsize) == 0;
        if (!same && is_float) {
            const double g = number(dtype, &given[n * itemsize]), e = number(dtype, &golden[n * itemsize]);
            const double error = std::fabs(g - e) / (scale > 0 ? scale : 1);
            if (error > worst) worst = error;
            same = (std::isnan(g) && std::isnan(e)) || error <= tolerance;
        }
        if (!same && wrong++ == 0) first = n;
    }
    std::printf("%-16s %s %zu elements, largest error %.2g of the largest value", name.c_str(), dtype.c_str(),
                count, worst);
    if (wrong) std::printf(": %zu WRONG, first at %zu", wrong, first);
    std::printf("\n");
    return wrong == 0;
}
"""

CHIP = r"""
// The chip that this was generated for.
#pragma once

#include <cstdint>

enum class Cores : uint32_t { vector, cube, mixed };

#ifdef ON_SIMULATOR
#include "sim/interface.hpp"

inline pyasc_sim_launch simulated_chip() {
    pyasc_sim_launch chip{};
    const uint32_t capacities[8] = {@CAPACITIES@};  // GM, UB, L1, L0A, L0B, L0C, bias table, fixpipe buffer
    for (int n = 0; n < 8; ++n) chip.capacities[n] = capacities[n];
    chip.cube_cores = @CUBE_CORES@;
    chip.vector_cores = @VECTOR_CORES@;
    return chip;
}
#endif
"""

CMAKE = r"""
# Builds ./@NAME@ for the NPU with CANN's compiler (source its set_env.sh first). For the host: make simulate
cmake_minimum_required(VERSION 3.16)

set(CMAKE_ASC_ARCHITECTURES "@ARCHITECTURE@" CACHE STRING "architecture of the NPU")
set(CMAKE_CXX_STANDARD 17)
find_package(ASC REQUIRED)
project(@NAME@ LANGUAGES ASC CXX)

add_executable(@NAME@
    src/main.asc
@KERNELS@)
target_include_directories(@NAME@ PRIVATE src)
target_compile_options(@NAME@ PRIVATE
    $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=${CMAKE_ASC_ARCHITECTURES} -std=c++17 -O2>)
"""

MAKEFILE = r"""
# make simulate   build for the host and run on pyasc's simulator: each access checked
# make npu        build with CANN and run on the NPU

CXX ?= g++
PYTHON ?= python3
SIMULATOR := $(shell $(PYTHON) -m pyasc.backend.sim flags)
SOURCES := src/main.asc $(wildcard kernels/*.asc)

.PHONY: simulate npu clean

simulate: build/@NAME@-simulated
	build/@NAME@-simulated

build/@NAME@-simulated: $(SOURCES) $(wildcard src/*.hpp)
	@mkdir -p build
	$(CXX) -std=c++17 -O1 -DON_SIMULATOR -Isrc $(foreach s,$(SOURCES),-x c++ $(s)) -x none $(SIMULATOR) -o $@

npu:
	cmake -S . -B build/npu && cmake --build build/npu
	build/npu/@NAME@

clean:
	rm -rf build
"""
