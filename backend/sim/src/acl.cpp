// A device for programs with a host part: its memory is the host's, its streams are synchronous.
#include "acl/acl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "engine.hpp"

namespace {

struct Device {
    std::mutex mutex;
    struct Allocation {
        size_t bytes;
        int32_t number;
    };
    std::map<uint8_t*, Allocation> allocations;
    int32_t next = 0;
    std::string error;
};

Device& device() {
    static Device the_device;
    return the_device;
}

// Of a 910B1, unless PYASC_SIM_CHIP has other numbers: bytes of UB, L1, L0A, L0B, L0C, BT and FB, cube cores,
// vector cores.
sim::Capacities capacities() {
    uint32_t numbers[9] = {196608, 524288, 65536, 65536, 131072, 1024, 7168, 24, 48};
    if (const char* text = std::getenv("PYASC_SIM_CHIP")) {
        for (uint32_t& number : numbers) {
            char* end = nullptr;
            number = static_cast<uint32_t>(std::strtoul(text, &end, 10));
            text = *end ? end + 1 : end;
        }
    }
    sim::Capacities result{};
    std::copy_n(numbers, 7, result.bytes + 1);
    result.cube_cores = numbers[7];
    result.vector_cores = numbers[8];
    return result;
}

constexpr size_t system_workspace = size_t{16} << 20;

aclError fail(aclError code, const std::string& message) {
    device().error = message;
    return code;
}

}  // namespace

namespace sim {

void launch_program(uint32_t kind, uint32_t vectors_per_block, uint32_t blocks, void (*body)(void*),
                    void* closure) {
    struct Call {
        void (*body)(void*);
        void* closure;
    } call{body, closure};
    Launch launch;
    launch.entry = [](void* const* arguments) {
        const auto* made = static_cast<const Call*>(arguments[0]);
        made->body(made->closure);
    };
    launch.arguments.push_back(&call);
    launch.kind = static_cast<Launch::Kind>(kind);
    launch.vectors_per_block = static_cast<int32_t>(vectors_per_block);
    launch.blocks = static_cast<int32_t>(blocks);
    launch.capacities = capacities();
    launch.slots = static_cast<int32_t>(std::thread::hardware_concurrency());
    {
        const std::lock_guard lock(device().mutex);
        for (const auto& [address, allocation] : device().allocations)
            launch.buffers.push_back({address, allocation.bytes, allocation.number});
    }
    std::vector<uint8_t> workspace(system_workspace);
    launch.workspace = workspace.data();
    launch.buffers.push_back({workspace.data(), workspace.size(), -1});
    launch.run();
    std::fflush(stdout);
    if (launch.finding.kind == Kind::None) return;
    std::fprintf(stderr, "%s: %s\n", name_of(launch.finding.kind), launch.finding.message.c_str());
    std::exit(3);
}

}  // namespace sim

extern "C" {

aclError aclInit(const char*) { return ACL_SUCCESS; }
aclError aclFinalize(void) { return ACL_SUCCESS; }
aclError aclrtSetDevice(int32_t number) {
    return number == 0 ? ACL_SUCCESS : fail(ACL_ERROR_INVALID_PARAM, "there is one device, number 0");
}
aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }
aclError aclrtGetDevice(int32_t* number) {
    *number = 0;
    return ACL_SUCCESS;
}
aclError aclrtGetDeviceCount(uint32_t* count) {
    *count = 1;
    return ACL_SUCCESS;
}
aclError aclrtCreateContext(aclrtContext* context, int32_t) {
    *context = &device();
    return ACL_SUCCESS;
}
aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
aclError aclrtSetCurrentContext(aclrtContext) { return ACL_SUCCESS; }
aclError aclrtCreateStream(aclrtStream* stream) {
    *stream = &device();
    return ACL_SUCCESS;
}
aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeStream(aclrtStream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeDevice(void) { return ACL_SUCCESS; }

aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy) {
    if (bytes == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMalloc of 0 bytes");
    // Aligned as the device does it, and as large as was asked for: a kernel that goes beyond is told so.
    *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!*memory) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory is left");
    const std::lock_guard lock(device().mutex);
    device().allocations[static_cast<uint8_t*>(*memory)] = {bytes, device().next++};
    return ACL_SUCCESS;
}
aclError aclrtFree(void* memory) {
    const std::lock_guard lock(device().mutex);
    if (!device().allocations.erase(static_cast<uint8_t*>(memory)))
        return fail(ACL_ERROR_INVALID_PARAM, "aclrtFree of memory that aclrtMalloc did not give");
    std::free(memory);
    return ACL_SUCCESS;
}
aclError aclrtMallocHost(void** memory, size_t bytes) {
    *memory = std::aligned_alloc(64, (std::max<size_t>(bytes, 1) + 63) / 64 * 64);
    return *memory ? ACL_SUCCESS : fail(ACL_ERROR_BAD_ALLOC, "no memory is left");
}
aclError aclrtFreeHost(void* memory) {
    std::free(memory);
    return ACL_SUCCESS;
}
aclError aclrtMemset(void* memory, size_t limit, int32_t value, size_t bytes) {
    if (bytes > limit) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemset past the end");
    std::memset(memory, value, bytes);
    return ACL_SUCCESS;
}
aclError aclrtMemcpy(void* target, size_t limit, const void* source, size_t bytes, aclrtMemcpyKind) {
    if (bytes > limit) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy past the end");
    std::memcpy(target, source, bytes);
    return ACL_SUCCESS;
}
aclError aclrtMemcpyAsync(void* target, size_t limit, const void* source, size_t bytes, aclrtMemcpyKind kind,
                          aclrtStream) {
    return aclrtMemcpy(target, limit, source, bytes, kind);
}
aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
    *free = *total = size_t{64} << 30;
    return ACL_SUCCESS;
}
aclError aclrtCreateEvent(aclrtEvent* event) {
    *event = &device();
    return ACL_SUCCESS;
}
aclError aclrtDestroyEvent(aclrtEvent) { return ACL_SUCCESS; }
aclError aclrtRecordEvent(aclrtEvent, aclrtStream) { return ACL_SUCCESS; }
aclError aclrtSynchronizeEvent(aclrtEvent) { return ACL_SUCCESS; }
const char* aclGetRecentErrMsg(void) { return device().error.c_str(); }
const char* aclrtGetSocName(void) { return "Ascend910B1"; }

}  // extern "C"
