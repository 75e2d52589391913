#include "acl.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace pyasc::npu {

namespace {

std::mutex& library_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
}

std::string& library_path() {
    static std::string& path = *new std::string;
    return path;
}

std::atomic<Acl*> current{nullptr};
bool initialized_here = false;
std::atomic<bool> in_fork{false};
std::atomic<bool> used{false};

constexpr size_t most_exceptions = 64;
std::atomic<size_t> exception_count{0};

std::mutex& exception_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
}

std::vector<DeviceException>& exceptions() {
    static std::vector<DeviceException>& all = *new std::vector<DeviceException>;
    return all;
}

// Called from ACL's threads while they hold locks: it notes what there is and calls nothing else.
void note_exception(void* information) {
    const Acl* acl = current.load(std::memory_order_acquire);
    if (!acl || !information) return;
    const DeviceException exception{
        acl->aclrtGetDeviceIdFromExceptionInfo ? acl->aclrtGetDeviceIdFromExceptionInfo(information) : 0,
        acl->aclrtGetStreamIdFromExceptionInfo(information),
        acl->aclrtGetTaskIdFromExceptionInfo(information),
        static_cast<int>(acl->aclrtGetErrorCodeFromExceptionInfo(information))};
    const std::lock_guard<std::mutex> lock(exception_mutex());
    if (exceptions().size() >= most_exceptions) return;
    exceptions().push_back(exception);
    exception_count.store(exceptions().size(), std::memory_order_release);
}

void* open_library(const std::string& path) {
    // Without a path one that another library has loaded, so that there is one of them in the process.
    if (path.empty()) {
        if (void* handle = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD)) return handle;
    }
    void* handle = dlopen(path.empty() ? "libascendcl.so" : path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        const char* reason = dlerror();
        throw Failure{"dlopen", code::no_library, reason ? reason : "", false, {}};
    }
    return handle;
}

// By what number exceptions tell of a device: the driver's, which is another where ASCEND_RT_VISIBLE_DEVICES
// chooses among its devices.
uint32_t told_number(int device) {
    int32_t number = device;
    const Acl* acl = current.load(std::memory_order_acquire);
    if (acl && acl->aclrtGetLogicDevIdByUserDevId) {
        if (acl->aclrtGetLogicDevIdByUserDevId(device, &number) == code::success)
            return static_cast<uint32_t>(number);
        drop_message(*acl);
    }
    const char* chosen = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    for (int k = 0; chosen && *chosen; ++k) {
        char* end = nullptr;
        const long value = std::strtol(chosen, &end, 10);
        if (end == chosen) break;
        if (k == device) return static_cast<uint32_t>(value);
        chosen = *end == ',' ? end + 1 : nullptr;
    }
    return static_cast<uint32_t>(device);
}

// The callback is of the whole process: where there is only one, it is another library's if that initialised
// ACL.
bool watch(const Acl& acl) {
    if (!acl.aclrtGetTaskIdFromExceptionInfo || !acl.aclrtGetStreamIdFromExceptionInfo ||
        !acl.aclrtGetErrorCodeFromExceptionInfo)
        return false;
    if (acl.aclrtExceptionInfoCallbackRegister)
        return acl.aclrtExceptionInfoCallbackRegister(note_exception) == code::success;
    if (acl.aclrtSetExceptionInfoCallback && initialized_here)
        return acl.aclrtSetExceptionInfoCallback(note_exception) == code::success;
    return false;
}

}  // namespace

void set_library(const std::string& path) {
    const std::lock_guard<std::mutex> lock(library_mutex());
    library_path() = path;
}

Acl& Acl::get() {
    refuse_after_fork();
    if (Acl* acl = current.load(std::memory_order_acquire)) return *acl;
    const std::lock_guard<std::mutex> lock(library_mutex());
    if (Acl* acl = current.load(std::memory_order_acquire)) return *acl;
    auto acl = std::make_unique<Acl>();
    acl->library = open_library(library_path());
#define PYASC_ACL_FIND(name, ...) \
    acl->name = reinterpret_cast<decltype(acl->name)>(dlsym(acl->library, #name));
#define PYASC_ACL_NEED(name, ...) \
    PYASC_ACL_FIND(name)          \
    if (!acl->name)               \
        throw Failure{#name, code::no_function, "libascendcl.so has no function of that name", false, {}};
    PYASC_ACL_REQUIRED(PYASC_ACL_NEED)
    PYASC_ACL_OPTIONAL(PYASC_ACL_FIND)
#undef PYASC_ACL_NEED
#undef PYASC_ACL_FIND
    static const int at_fork = pthread_atfork(nullptr, nullptr, [] {
        if (used.load(std::memory_order_relaxed)) in_fork.store(true, std::memory_order_relaxed);
    });
    static_cast<void>(at_fork);
    used.store(true, std::memory_order_relaxed);
    // Another library, such as torch_npu, may have initialised it: then it is its to finalise.
    const int result = acl->aclInit(nullptr);
    if (result != code::success && result != code::repeated_initialize) {
        const char* message = acl->aclGetRecentErrMsg();
        throw Failure{"aclInit", result, message ? message : "", loses_device(result), {}};
    }
    initialized_here = result == code::success;
    Acl* const kept = acl.release();  // never destroyed: ACL's threads may still use it
    current.store(kept, std::memory_order_release);
    kept->watched = watch(*kept);
    return *kept;
}

Acl* Acl::loaded() noexcept { return forked() ? nullptr : current.load(std::memory_order_acquire); }

void Acl::finalize() noexcept {
    if (forked()) return;
    const std::lock_guard<std::mutex> lock(library_mutex());
    Acl* const acl = current.load(std::memory_order_acquire);
    if (!acl) return;
    if (acl->watched && acl->aclrtExceptionInfoCallbackUnregister)
        acl->aclrtExceptionInfoCallbackUnregister(note_exception);
    else if (acl->watched)
        acl->aclrtSetExceptionInfoCallback(nullptr);
    acl->watched = false;
    if (initialized_here && acl->aclFinalizeReference)
        acl->aclFinalizeReference(nullptr);  // others that began to use it meanwhile keep it
    else if (initialized_here)
        acl->aclFinalize();
    initialized_here = false;
    current.store(nullptr, std::memory_order_release);
}

void fail(const char* call, int code) {
    const Acl* acl = Acl::loaded();
    const char* message = acl ? acl->aclGetRecentErrMsg() : nullptr;
    throw Failure{call, code, message ? message : "", loses_device(code), {}};
}

bool forked() noexcept { return in_fork.load(std::memory_order_relaxed); }

void refuse_after_fork() {
    if (__builtin_expect(forked(), 0)) throw Failure{"fork", code::forked, "", false, {}};
}

bool pending_exceptions() noexcept { return exception_count.load(std::memory_order_acquire) != 0; }

std::vector<DeviceException> take_exceptions(int device) {
    std::vector<DeviceException> taken;
    if (!pending_exceptions()) return taken;
    const uint32_t number = told_number(device);
    const std::lock_guard<std::mutex> lock(exception_mutex());
    auto& all = exceptions();
    for (size_t k = 0; k < all.size();) {
        if (all[k].device == number) {
            taken.push_back(all[k]);
            all.erase(all.begin() + static_cast<ptrdiff_t>(k));
        } else {
            ++k;
        }
    }
    exception_count.store(all.size(), std::memory_order_release);
    return taken;
}

}  // namespace pyasc::npu
