// The public C interface that this library has, as far as it is used here: names, numbers and layouts of ACL.
#pragma once

#include <cstddef>
#include <cstdint>

#define ACL_EXPORT extern "C" __attribute__((visibility("default")))

using aclError = int;
using aclrtContext = void*;
using aclrtStream = void*;
using aclrtEvent = void*;
using aclrtBinHandle = void*;
using aclrtFuncHandle = void*;
using aclrtArgsHandle = void*;
using aclrtParamHandle = void*;

// Codes.
constexpr aclError success = 0;
constexpr aclError invalid_parameter = 100000;
constexpr aclError not_initialised = 100001;
constexpr aclError initialised_again = 100002;
constexpr aclError finalised_again = 100037;
constexpr aclError bad_argument = 107000;
constexpr aclError invalid_device = 107001;
constexpr aclError no_context = 107002;
constexpr aclError foreign_stream = 107003;
constexpr aclError no_timestamp = 107006;
constexpr aclError invalid_handle = 107017;
constexpr aclError stream_aborted = 107023;
constexpr aclError unsupported = 207000;
constexpr aclError out_of_memory = 207001;
constexpr aclError cannot_free = 207002;
constexpr aclError no_event_left = 207007;
constexpr aclError no_stream_left = 207008;
constexpr aclError event_pending = 507006;
constexpr aclError copy_failed = 507013;
constexpr aclError core_timeout = 507014;
constexpr aclError cube_exception = 507015;
constexpr aclError no_such_kernel = 507027;
constexpr aclError vector_timeout = 507034;
constexpr aclError vector_exception = 507035;
constexpr aclError stream_timeout = 507046;
constexpr aclError event_timeout = 507047;
constexpr aclError driver_error = 507899;

enum aclrtMemMallocPolicy : int { huge_first = 0 };
enum aclrtMemAttr : int { hbm = 1 };
enum aclrtMemcpyKind : int {
    host_to_host,
    host_to_device,
    device_to_host,
    device_to_device,
    any_direction,
    staged_to_device,
    within_device,
    across_devices
};
enum aclrtEventStatus : int { event_complete = 0, event_not_ready = 1 };
enum aclrtEventRecordedStatus : int { record_not_ready = 0, record_complete = 1 };
enum aclrtEventWaitStatus : int { wait_complete = 0, wait_not_ready = 1 };
enum aclrtStreamStatus : int { stream_complete = 0, stream_not_ready = 1 };
enum aclrtRunMode : int { run_on_device = 0, run_on_host = 1 };
enum aclrtDevAttr : int {
    ai_cores = 101,
    cube_cores = 102,
    vector_cores = 201,
    memory_bytes = 301,
    l2_bytes = 302,
};
constexpr uint32_t event_sync = 1, event_time_line = 8;
constexpr uint64_t stop_on_failure = 1;
constexpr uint32_t most_blocks = 65535;

struct aclrtBinaryLoadOption {
    int type;  // 1: lazy, 2: magic
    union {
        uint32_t lazy;
        uint32_t magic;
        uint32_t reserved[4];
    } value;
};
struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption* options;
    size_t count;
};
constexpr int option_magic = 2;
constexpr uint32_t magic_mixed = 0x43554245, magic_vector = 0x41415246, magic_cube = 0x41494343;

struct aclrtPlaceHolderInfo {
    uint32_t address_offset;
    uint32_t data_offset;
};

struct rtExceptionInfo {
    uint32_t task, stream, thread, device, code;
};
using aclrtExceptionInfo = rtExceptionInfo;
using aclrtExceptionInfoCallback = void (*)(aclrtExceptionInfo*);
using aclrtCallback = void (*)(void*);
