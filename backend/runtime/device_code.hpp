// Compiled kernels for devices, and how their blocks of arguments are filled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"

namespace pyasc {

// Loaded to a device when it is first launched there.
class DeviceCode {
  public:
    // Throws std::invalid_argument for an unknown kind.
    DeviceCode(std::string code, const std::string& kind, std::string name);
    ~DeviceCode();
    DeviceCode(const DeviceCode&) = delete;
    DeviceCode& operator=(const DeviceCode&) = delete;

    // Every code, from one device or, with null, from all: before it is reset, or they are shut down.
    static void unload_all(const npu::Device* device);

    const std::string& name() const { return name_; }
    const npu::Function& on(npu::Device& device);

  private:
    std::string code_;
    npu::CodeKind kind_;
    std::string name_;
    std::vector<std::pair<npu::Device*, std::shared_ptr<npu::Function>>> loaded_;
};

// Where a scalar argument goes in a block of arguments; Patch in backend/base.py says what each form means.
struct Patch {
    enum class Form : uint8_t { bits, narrow, boolean, extended, floating };
    enum class Type : uint8_t {
        none,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float16,
        bfloat16,
        float64
    };

    // Throws std::invalid_argument for a form that does not exist or does not fit the size.
    Patch(uint32_t at, uint32_t size, uint32_t scalar, const std::string& form);

    // False where the scalar does not fit.
    bool apply(char* block, uint64_t bits) const;

    uint32_t at;
    uint32_t size;
    uint32_t scalar;
    Form form = Form::bits;
    Type type = Type::none;
};

}  // namespace pyasc
