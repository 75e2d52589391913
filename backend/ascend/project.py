"""The fixed files of an exported project: memory and launches of the device, comparison, build files.

What depends on the function is written by `export`. ``@NAME@`` is replaced there.
"""

from __future__ import annotations

DEVICE = r"""
// Memory of the device and its queue, through ACL: of an NPU, or of pyasc's simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"

using Bytes = std::vector<uint8_t>;

inline void check(aclError error, const char* what) {
    if (error == ACL_SUCCESS) return;
    const char* message = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(what) + " failed with " + std::to_string(error) +
                             (message ? std::string(": ") + message : std::string()));
}

inline Bytes read_file(const std::string& path, size_t bytes) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("expected the file " + path + ", which cannot be read");
    const size_t given = static_cast<size_t>(file.tellg());
    if (given != bytes)
        throw std::runtime_error("expected " + std::to_string(bytes) + " bytes in " + path + ", given " +
                                 std::to_string(given));
    Bytes data(bytes);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(bytes));
    return data;
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
    Device& operator=(const Device&) = delete;
    aclrtStream stream() const { return stream_; }
    void wait() const { check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream"); }

  private:
    aclrtStream stream_ = nullptr;
};

class Buffer {
  public:
    explicit Buffer(size_t bytes) : bytes_(bytes) {
        check(aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    ~Buffer() { aclrtFree(address_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    uint8_t* address() const { return static_cast<uint8_t*>(address_); }
    void upload(const Bytes& data) {
        check(aclrtMemcpy(address_, bytes_, data.data(), data.size(), ACL_MEMCPY_HOST_TO_DEVICE),
              "aclrtMemcpy");
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
"""

SIZES = r"""
// What sizes are computed with.
#pragma once

#include <cmath>
#include <cstdint>

inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t Div(int64_t a, int64_t b) { return a / b; }
inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t Up(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
inline int64_t Root(int64_t a) {
    auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(a)));
    while (root * root > a) --root;
    while ((root + 1) * (root + 1) <= a) ++root;
    return root;
}
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
    if (wrong && is_float)
        std::printf(" (expected %.9g, given %.9g)", number(dtype, &golden[first * itemsize]),
                    number(dtype, &given[first * itemsize]));
    std::printf("\n");
    return wrong == 0;
}
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
# The simulated @CHIP@: bytes of UB, L1, L0A, L0B, L0C, bias table and fixpipe buffer, cube and vector cores.
export PYASC_SIM_CHIP := @CAPACITIES@
SIMULATOR = $(shell $(PYTHON) -m pyasc.backend.sim flags)
SOURCES := src/main.asc $(wildcard kernels/*.asc)

.PHONY: simulate npu clean

simulate: build/@NAME@-simulated
	build/@NAME@-simulated

build/@NAME@-simulated: $(SOURCES) $(wildcard src/*.hpp)
	@$(PYTHON) -c 'import pyasc' 2>/dev/null || \
		{ echo 'make: expected pyasc in $(PYTHON), found none; say PYTHON=/path/to/its/python'; exit 1; }
	@mkdir -p build
	$(CXX) -std=c++17 -O1 -DON_SIMULATOR -Isrc $(foreach s,$(SOURCES),-x c++ $(s)) -x none $(SIMULATOR) -o $@

npu:
	@cmake -S . -B build/npu || { echo 'make: if CMake found no CANN, source its set_env.sh first'; exit 1; }
	cmake --build build/npu
	build/npu/@NAME@

clean:
	rm -rf build
"""
