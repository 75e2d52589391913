// The functions of libascendcl.so that are used, found at run time; own declarations of the public C
// interface. Handles (contexts, streams, events, binaries, functions) are pointers, enumerations are ints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device.hpp"

namespace pyasc::npu {

// What aclrtBinaryLoadFromData is told.
struct BinaryLoadOption {
    int type;
    uint32_t value[4];
};
struct BinaryLoadOptions {
    BinaryLoadOption* options;
    size_t count;
};

using ExceptionCallback = void (*)(void* information);

// Without these nothing works; CANN 8.1 has them all.
#define PYASC_ACL_REQUIRED(F)                                                \
    F(aclInit, int, const char*)                                             \
    F(aclFinalize, int)                                                      \
    F(aclGetRecentErrMsg, const char*)                                       \
    F(aclrtGetSocName, const char*)                                          \
    F(aclrtGetDeviceCount, int, uint32_t*)                                   \
    F(aclrtSetDevice, int, int32_t)                                          \
    F(aclrtResetDevice, int, int32_t)                                        \
    F(aclrtSetCurrentContext, int, void*)                                    \
    F(aclrtGetCurrentContext, int, void**)                                   \
    F(aclrtCreateStream, int, void**)                                        \
    F(aclrtDestroyStream, int, void*)                                        \
    F(aclrtSynchronizeStreamWithTimeout, int, void*, int32_t)                \
    F(aclrtStreamWaitEvent, int, void*, void*)                               \
    F(aclrtCreateEventExWithFlag, int, void**, uint32_t)                     \
    F(aclrtDestroyEvent, int, void*)                                         \
    F(aclrtRecordEvent, int, void*, void*)                                   \
    F(aclrtQueryEventStatus, int, void*, int*)                               \
    F(aclrtEventElapsedTime, int, float*, void*, void*)                      \
    F(aclrtMalloc, int, void**, size_t, int)                                 \
    F(aclrtFree, int, void*)                                                 \
    F(aclrtMallocHost, int, void**, size_t)                                  \
    F(aclrtFreeHost, int, void*)                                             \
    F(aclrtMemcpyAsync, int, void*, size_t, const void*, size_t, int, void*) \
    F(aclrtMemsetAsync, int, void*, size_t, int32_t, size_t, void*)          \
    F(aclrtGetMemInfo, int, int, size_t*, size_t*)

// Without these some things do not work, or less well; null where a toolkit lacks them.
#define PYASC_ACL_OPTIONAL(F)                                                                          \
    F(aclrtBinaryLoadFromData, int, const void*, size_t, const BinaryLoadOptions*, void**)             \
    F(aclrtBinaryLoadFromFile, int, const char*, const BinaryLoadOptions*, void**)                     \
    F(aclrtBinaryUnLoad, int, void*)                                                                   \
    F(aclrtBinaryGetFunction, int, void*, const char*, void**)                                         \
    F(aclrtLaunchKernelWithHostArgs, int, void*, uint32_t, void*, void*, void*, size_t, void*, size_t) \
    F(aclrtKernelArgsInit, int, void*, void**)                                                         \
    F(aclrtKernelArgsAppend, int, void*, void*, size_t, void**)                                        \
    F(aclrtKernelArgsFinalize, int, void*)                                                             \
    F(aclrtLaunchKernelWithConfig, int, void*, uint32_t, void*, void*, void*, void*)                   \
    F(aclrtGetHardwareSyncAddr, int, void**)                                                           \
    F(rtGetC2cCtrlAddr, int, uint64_t*, uint32_t*)                                                     \
    F(aclrtCreateStreamWithConfig, int, void**, uint32_t, uint32_t)                                    \
    F(aclrtDestroyStreamForce, int, void*)                                                             \
    F(aclrtStreamAbort, int, void*)                                                                    \
    F(aclrtStreamGetId, int, void*, int32_t*)                                                          \
    F(aclrtEventGetTimestamp, int, void*, uint64_t*)                                                   \
    F(aclrtResetDeviceForce, int, int32_t)                                                             \
    F(aclrtDeviceCanAccessPeer, int, int32_t*, int32_t, int32_t)                                       \
    F(aclrtDeviceEnablePeerAccess, int, int32_t, uint32_t)                                             \
    F(aclrtGetThreadLastTaskId, int, uint32_t*)                                                        \
    F(aclrtGetLastError, int, int)                                                                     \
    F(aclFinalizeReference, int, uint64_t*)                                                            \
    F(aclrtGetLogicDevIdByUserDevId, int, int32_t, int32_t*)                                           \
    F(aclrtExceptionInfoCallbackRegister, int, ExceptionCallback)                                      \
    F(aclrtExceptionInfoCallbackUnregister, int, ExceptionCallback)                                    \
    F(aclrtSetExceptionInfoCallback, int, ExceptionCallback)                                           \
    F(aclrtGetTaskIdFromExceptionInfo, uint32_t, const void*)                                          \
    F(aclrtGetStreamIdFromExceptionInfo, uint32_t, const void*)                                        \
    F(aclrtGetDeviceIdFromExceptionInfo, uint32_t, const void*)                                        \
    F(aclrtGetErrorCodeFromExceptionInfo, uint32_t, const void*)

template <class Result, class... Arguments>
using Call = Result (*)(Arguments...);

struct Acl {
#define PYASC_ACL_MEMBER(name, ...) Call<__VA_ARGS__> name = nullptr;
    PYASC_ACL_REQUIRED(PYASC_ACL_MEMBER)
    PYASC_ACL_OPTIONAL(PYASC_ACL_MEMBER)
#undef PYASC_ACL_MEMBER
    void* library = nullptr;
    bool watched = false;  // whether exceptions are reported to `exceptions`

    // Loaded, and aclInit called, at the first call; throws Failure, again at each call until it is mended.
    static Acl& get();
    // Null where `get` was not called, or `finalize` was.
    static Acl* loaded() noexcept;
    // aclFinalize, where aclInit was ours.
    static void finalize() noexcept;
};

// Codes of ACL that are acted on.
namespace code {
constexpr int success = 0;
constexpr int repeated_initialize = 100002;
constexpr int event_without_time = 107006;
constexpr int stream_timeout = 507046;
constexpr int event_timeout = 507047;
// Of our own.
constexpr int no_library = -1;
constexpr int no_function = -2;
constexpr int forked = -3;
constexpr int hung = -4;
constexpr int closed = -5;
}  // namespace code

constexpr int event_complete = 1;
constexpr uint32_t event_sync = 1;
constexpr uint32_t event_timeline = 8;
constexpr int huge_pages_first = 0;
constexpr int hbm = 1;
constexpr int ddr = 0;
constexpr int host_to_device = 1;
constexpr int device_to_host = 2;
constexpr int device_to_device = 3;
constexpr uint32_t fast_launch = 1;
constexpr uint32_t fast_synchronize = 2;

bool out_of_memory(int code);
// Whether code tells of work that failed in a lane, not of the call that returned it.
bool of_work(int code);
// Whether the device must be reset after code.
bool loses_device(int code);

// What ACL says about failures adds up until it is asked: to be called where one was expected and dealt with.
inline void drop_message(const Acl& acl) { acl.aclGetRecentErrMsg(); }

// With what ACL has to say about it.
[[noreturn]] void fail(const char* call, int code);
inline void check(const char* call, int code) {
    if (__builtin_expect(code != code::success, 0)) fail(call, code);
}

// Whether this process was forked from one that used a device: then nothing of ACL may be called.
bool forked() noexcept;
void refuse_after_fork();

// What the device reports of work that failed, by ids; filled from ACL's own threads.
struct DeviceException {
    uint32_t device, stream, task;
    int code;
};
// Those of a device that were not taken yet. `pending_exceptions` is quick.
bool pending_exceptions() noexcept;
std::vector<DeviceException> take_exceptions(int device);

}  // namespace pyasc::npu
