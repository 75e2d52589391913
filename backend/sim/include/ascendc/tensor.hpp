// LocalTensor and GlobalTensor.
#pragma once

#include "types.hpp"

namespace AscendC {

struct ShapeInfo {
    ShapeInfo() = default;
    ShapeInfo(uint8_t dimensions, const uint32_t sizes[], DataFormat format = DataFormat::ND)
        : shapeDim(dimensions), originalShapeDim(dimensions), dataFormat(format) {
        for (int i = 0; i < dimensions && i < 8; ++i) shape[i] = originalShape[i] = sizes[i];
    }
    ShapeInfo(uint8_t dimensions, const uint32_t sizes[], uint8_t original_dimensions,
              const uint32_t original_sizes[], DataFormat format)
        : shapeDim(dimensions), originalShapeDim(original_dimensions), dataFormat(format) {
        for (int i = 0; i < dimensions && i < 8; ++i) shape[i] = sizes[i];
        for (int i = 0; i < original_dimensions && i < 8; ++i) originalShape[i] = original_sizes[i];
    }
    uint8_t shapeDim = 0;
    uint8_t originalShapeDim = 0;
    uint32_t shape[8] = {};
    uint32_t originalShape[8] = {};
    DataFormat dataFormat = DataFormat::ND;
};

template <typename T>
class LocalTensor {
  public:
    using PrimType = T;

    LocalTensor() = default;
    explicit LocalTensor(const sim::Local& local) : local_(local) { local_.dtype = dtype_of<T>(); }
    LocalTensor(TPosition position, uint32_t address, uint32_t count, sim::Where where = sim::Where::here())
        : local_(sim::place(static_cast<uint8_t>(position), space_of(position), address, bytes_of<T>(count),
                            dtype_of<T>(), where)) {}
    explicit LocalTensor(uint32_t address, sim::Where where = sim::Where::here())
        : local_(sim::place(static_cast<uint8_t>(TPosition::VECCALC), sim::Space::UB, address, 0,
                            dtype_of<T>(), where)) {}

    sim::Local ref() const { return local_; }

    LocalTensor operator[](uint32_t offset) const {
        LocalTensor result = *this;
        const uint64_t bytes = std::is_same_v<T, int4b_t> ? offset / 2 : uint64_t{offset} * sizeof(T);
        result.local_.offset += static_cast<uint32_t>(bytes);
        result.local_.bytes = bytes > local_.bytes ? 0 : local_.bytes - static_cast<uint32_t>(bytes);
        return result;
    }

    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(local_);
    }

    T GetValue(uint32_t index, sim::Where where = sim::Where::here()) const {
        T value{};
        sim::load(local_, uint64_t{index} * sizeof(T), &value, sizeof(T), where);
        return value;
    }

    template <typename S>
    void SetValue(uint32_t index, S value, sim::Where where = sim::Where::here()) const {
        const T converted = static_cast<T>(value);
        sim::store(local_, uint64_t{index} * sizeof(T), &converted, sizeof(T), where);
    }

    // Both ways: what is done with the reference the simulator cannot see.
    T& operator()(uint32_t index) const {
        return *reinterpret_cast<T*>(
            sim::scalar_reference(local_, uint64_t{index} * sizeof(T), sizeof(T), sim::Where::here()));
    }

    // The host's address: only to be handed on.
    T* GetPhyAddr(uint32_t offset = 0) const { return reinterpret_cast<T*>(sim::data(local_)) + offset; }

    int32_t GetPosition() const { return local_.position; }
    uint32_t GetSize() const {
        return std::is_same_v<T, int4b_t> ? local_.bytes * 2
                                          : local_.bytes / static_cast<uint32_t>(sizeof(T));
    }
    uint32_t GetLength() const { return local_.bytes; }
    void SetSize(uint32_t count) { local_.bytes = static_cast<uint32_t>(bytes_of<T>(count)); }
    void SetBufferLen(uint32_t bytes) { local_.bytes = bytes; }
    template <typename S>
    void SetAddrWithOffset(LocalTensor<S>& source, uint32_t offset) {
        local_ = source[offset].ref();
        local_.dtype = dtype_of<T>();
    }

    void SetUserTag(int32_t tag) { tag_ = tag; }
    int32_t GetUserTag() const { return tag_; }
    void SetShapeInfo(const ShapeInfo& shape) { shapeInfo_ = shape; }
    ShapeInfo GetShapeInfo() const { return shapeInfo_; }

    ShapeInfo shapeInfo_;

  private:
    sim::Local local_{sim::Space::UB, static_cast<uint8_t>(TPosition::MAX), dtype_of<T>(), 0, 0, -1};
    int32_t tag_ = 0;
};

template <typename T>
class GlobalTensor {
  public:
    using PrimType = T;

    void SetGlobalBuffer(T* buffer, uint64_t count) {
        address_ = buffer;
        bufferSize_ = count;
        bounded_ = true;
    }
    void SetGlobalBuffer(T* buffer) {
        address_ = buffer;
        bufferSize_ = 0;
        bounded_ = false;
    }

    sim::Global ref() const {
        return {reinterpret_cast<uint8_t*>(const_cast<std::remove_const_t<T>*>(address_)),
                bounded_ ? bytes_of<T>(bufferSize_) : 0, dtype_of<std::remove_const_t<T>>(), l2_};
    }

    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor result = *this;
        if constexpr (std::is_same_v<T, int4b_t>)
            result.address_ = address_ + offset / 2;
        else
            result.address_ = address_ + offset;
        // Past the end nothing is left; 0 would mean that there is no end.
        result.bufferSize_ = offset < bufferSize_ ? bufferSize_ - offset : 0;
        if (bounded_ && result.bufferSize_ == 0) result.bounded_ = false;
        return result;
    }

    T GetValue(uint64_t index, sim::Where where = sim::Where::here()) const {
        T value{};
        sim::load(ref(), index * sizeof(T), &value, sizeof(T), where);
        return value;
    }
    void SetValue(uint64_t index, T value, sim::Where where = sim::Where::here()) const {
        sim::store(ref(), index * sizeof(T), &value, sizeof(T), where);
    }
    T& operator()(uint64_t index) const {
        return *reinterpret_cast<T*>(
            sim::scalar_reference(ref(), index * sizeof(T), sizeof(T), sim::Where::here()));
    }

    const T* GetPhyAddr() const { return address_; }
    T* GetPhyAddr(uint64_t offset) const { return address_ + offset; }
    uint64_t GetSize() const { return bufferSize_; }
    template <CacheRwMode mode = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode cache) {
        l2_ = cache != CacheMode::CACHE_MODE_DISABLE;
    }
    void SetShapeInfo(const ShapeInfo& shape) { shapeInfo_ = shape; }
    ShapeInfo GetShapeInfo() const { return shapeInfo_; }

    uint64_t bufferSize_ = 0;
    ShapeInfo shapeInfo_;

  private:
    T* address_ = nullptr;
    bool bounded_ = false;
    bool l2_ = true;
};

// The scalar unit sees GM through a cache; here it sees GM itself. A kernel that writes the cache back must
// not write back a line into which another core wrote.
template <typename T, CacheLine line, DcciDst destination = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&, sim::Where = sim::Where::here()) {
    sim::clean_cache();
}
template <typename T, CacheLine line>
void DataCacheCleanAndInvalid(const LocalTensor<T>&, sim::Where = sim::Where::here()) {}
template <typename T, typename P>
void DataCachePreload(const GlobalTensor<T>&, const P, sim::Where = sim::Where::here()) {}

}  // namespace AscendC
