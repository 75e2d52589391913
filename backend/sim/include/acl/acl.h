// The public ACL functions that a program around a kernel calls: the device is the simulator, streams are
// synchronous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "sim/program.hpp"

using aclError = int;
using aclrtStream = void*;
using aclrtContext = void*;
using aclrtEvent = void*;

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;
constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;

enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEM_MALLOC_HUGE_ONLY,
    ACL_MEM_MALLOC_NORMAL_ONLY,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P
};
enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEFAULT
};
enum aclrtMemAttr { ACL_DDR_MEM, ACL_HBM_MEM };
enum aclDataType {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_BF16 = 27
};

extern "C" {
aclError aclInit(const char* configuration);
aclError aclFinalize(void);
aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtCreateContext(aclrtContext* context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeDevice(void);
aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* memory);
aclError aclrtMallocHost(void** memory, size_t bytes);
aclError aclrtFreeHost(void* memory);
aclError aclrtMemset(void* memory, size_t limit, int32_t value, size_t bytes);
aclError aclrtMemcpy(void* target, size_t limit, const void* source, size_t bytes, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* target, size_t limit, const void* source, size_t bytes, aclrtMemcpyKind kind,
                          aclrtStream stream);
aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t* free, size_t* total);
aclError aclrtCreateEvent(aclrtEvent* event);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtSynchronizeEvent(aclrtEvent event);
const char* aclGetRecentErrMsg(void);
const char* aclrtGetSocName(void);
}
