#include "device_code.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace pyasc {

namespace {

constexpr std::array<std::pair<const char*, npu::CodeKind>, 4> kinds = {{
    {"vector", npu::CodeKind::vector},
    {"cube", npu::CodeKind::cube},
    {"mixed", npu::CodeKind::mixed},
    {"library", npu::CodeKind::library},
}};

using Type = Patch::Type;

constexpr std::array<std::pair<const char*, Type>, 11> types = {{
    {"int8", Type::int8},
    {"int16", Type::int16},
    {"int32", Type::int32},
    {"int64", Type::int64},
    {"uint8", Type::uint8},
    {"uint16", Type::uint16},
    {"uint32", Type::uint32},
    {"uint64", Type::uint64},
    {"float16", Type::float16},
    {"bfloat16", Type::bfloat16},
    {"float64", Type::float64},
}};

// The low bytes as a number of a type, in 64 bits.
uint64_t extended(Type type, uint64_t bits) {
    switch (type) {
        case Type::int8:
            return static_cast<uint64_t>(static_cast<int8_t>(bits));
        case Type::int16:
            return static_cast<uint64_t>(static_cast<int16_t>(bits));
        case Type::int32:
            return static_cast<uint64_t>(static_cast<int32_t>(bits));
        case Type::uint8:
            return static_cast<uint8_t>(bits);
        case Type::uint16:
            return static_cast<uint16_t>(bits);
        case Type::uint32:
            return static_cast<uint32_t>(bits);
        default:
            return bits;
    }
}

float half(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    float value;
    if (exponent == 31) {
        // Infinity, or a NaN with the same bits in front.
        const uint32_t wide = 0x7f800000U | static_cast<uint32_t>(fraction) << 13;
        std::memcpy(&value, &wide, sizeof value);
    } else {
        value = exponent ? std::ldexp(static_cast<float>(fraction + 1024), exponent - 25)
                         : std::ldexp(static_cast<float>(fraction), -24);
    }
    return bits & 0x8000 ? -value : value;
}

float as_float(Type type, uint64_t bits) {
    switch (type) {
        case Type::float16:
            return half(static_cast<uint16_t>(bits));
        case Type::bfloat16: {
            const uint32_t wide = static_cast<uint32_t>(bits & 0xffff) << 16;
            float value;
            std::memcpy(&value, &wide, sizeof value);
            return value;
        }
        case Type::float64: {
            double value;
            std::memcpy(&value, &bits, sizeof value);
            return static_cast<float>(value);
        }
        case Type::uint8:
        case Type::uint16:
        case Type::uint32:
        case Type::uint64:
            return static_cast<float>(extended(type, bits));
        default:
            return static_cast<float>(static_cast<int64_t>(extended(type, bits)));
    }
}

std::unordered_set<DeviceCode*>& codes() {
    // Never destroyed: codes may outlive every destructor of the process.
    static auto& all = *new std::unordered_set<DeviceCode*>;
    return all;
}

bool is_floating(Type type) {
    return type == Type::float16 || type == Type::bfloat16 || type == Type::float64;
}

}  // namespace

DeviceCode::DeviceCode(std::string code, const std::string& kind, std::string name)
    : code_(std::move(code)), name_(std::move(name)) {
    const auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return kind == known.first; });
    if (found == kinds.end())
        throw std::invalid_argument("[DeviceCode] expected vector, cube, mixed or library, given " + kind);
    kind_ = found->second;
    codes().insert(this);
}

DeviceCode::~DeviceCode() { codes().erase(this); }

void DeviceCode::unload_all(const npu::Device* device) {
    for (DeviceCode* code : codes()) {
        auto& loaded = code->loaded_;
        const auto is_meant = [&](const auto& one) { return !device || one.first == device; };
        loaded.erase(std::remove_if(loaded.begin(), loaded.end(), is_meant), loaded.end());
    }
}

const npu::Function& DeviceCode::on(npu::Device& device) {
    for (const auto& [where, function] : loaded_)
        if (where == &device) return *function;
    loaded_.emplace_back(&device, device.load(code_.data(), code_.size(), kind_, name_));
    return *loaded_.back().second;
}

Patch::Patch(uint32_t at_, uint32_t size_, uint32_t scalar_, const std::string& text)
    : at(at_), size(size_), scalar(scalar_) {
    static const std::string to_float = ">float32";
    std::string source = text;
    const bool converted = source.size() > to_float.size() &&
                           source.compare(source.size() - to_float.size(), to_float.size(), to_float) == 0;
    if (converted) source.resize(source.size() - to_float.size());
    uint32_t most = 8;
    bool known = true;
    if (text == "bits") {
        form = Form::bits;
    } else if (text == "narrow") {
        form = Form::narrow;
        most = 4;
    } else if (text == "bool") {
        form = Form::boolean;
        most = 2;
    } else {
        for (const auto& [name, value] : types)
            if (source == name) type = value;
        known = type != Type::none;
        form = converted || is_floating(type) ? Form::floating : Form::extended;
        if (form == Form::floating) most = 4;
    }
    const bool exact = form == Form::boolean || form == Form::floating || form == Form::narrow;
    if (!known || size > most || (exact && size != most))
        throw std::invalid_argument("[device_launch] expected the form of a scalar in its bytes, given " +
                                    text + " in " + std::to_string(size));
}

bool Patch::apply(char* block, uint64_t bits) const {
    switch (form) {
        case Form::bits:
            break;
        case Form::narrow: {
            const int64_t value = static_cast<int64_t>(bits);
            if (value != static_cast<int32_t>(value)) return false;
            break;
        }
        case Form::boolean:
            bits = bits & 0xff ? 0x3c00 : 0;
            break;
        case Form::extended:
            bits = extended(type, bits);
            break;
        case Form::floating: {
            const float value = as_float(type, bits);
            bits = 0;
            std::memcpy(&bits, &value, sizeof value);
            break;
        }
    }
    std::memcpy(block + at, &bits, size);
    return true;
}

}  // namespace pyasc
