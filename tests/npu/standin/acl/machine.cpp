// The machine: settings, errors, faults, devices and contexts.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "standin.hpp"

namespace standin {

namespace {

std::atomic<bool> forked{false};
thread_local std::string said, shown;
thread_local aclError last_error = success;
constexpr size_t most_complaints = 1000;

uint64_t number_of(const char* name, uint64_t usual) {
    const char* value = std::getenv(name);
    return value && *value ? std::strtoull(value, nullptr, 0) : usual;
}

double real_of(const char* name, double usual) {
    const char* value = std::getenv(name);
    return value && *value ? std::strtod(value, nullptr) : usual;
}

// What can be called for a device that must be reset.
bool gives_back(const std::string& name) {
    for (const char* part : {"Reset", "Destroy", "Free", "UnLoad", "Finalize"})
        if (name.find(part) != std::string::npos) return true;
    return false;
}

}  // namespace

thread_local Context* current = nullptr;

Machine& machine() {
    static Machine* const the_machine = [] {
        pthread_atfork(nullptr, nullptr, [] { forked = true; });
        auto made = std::make_unique<Machine>();
        return made.release();
    }();
    return *the_machine;
}

void read_settings() {
    Settings& s = machine().settings;
    s.devices = static_cast<uint32_t>(number_of("STANDIN_DEVICES", 2));
    s.visible.clear();
    if (const char* chosen = std::getenv("ASCEND_RT_VISIBLE_DEVICES")) {
        // Those that are named and there become 0, 1, …; what follows one that is not there does not count.
        std::istringstream names(chosen);
        for (std::string name; std::getline(names, name, ',') && !name.empty();) {
            const auto number = static_cast<uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
            if (number >= s.devices) break;
            s.visible.push_back(number);
        }
        s.devices = static_cast<uint32_t>(s.visible.size());
    }
    s.memory = number_of("STANDIN_MEMORY", uint64_t{64} << 30);
    s.events = static_cast<uint32_t>(number_of("STANDIN_EVENTS", 65536));
    s.streams = static_cast<uint32_t>(number_of("STANDIN_STREAMS", 1024));
    s.delay_us = static_cast<uint32_t>(number_of("STANDIN_DELAY_US", 0));
    s.seed = number_of("STANDIN_SEED", 1);
    s.model_time = number_of("STANDIN_MODEL_TIME", 0) != 0;
    s.null_kernels = number_of("STANDIN_NULL_KERNELS", 0) != 0;
    s.unchecked = number_of("STANDIN_UNCHECKED", 0) != 0;
    s.kernel_us = real_of("STANDIN_KERNEL_US", 0);
    s.bytes_per_us = real_of("STANDIN_GB_PER_S", 25) * 1000;
    const char* soc = std::getenv("STANDIN_SOC");
    s.soc = soc && *soc ? soc : "Ascend910B1";
    // Of a 910B1, unless PYASC_SIM_CHIP has others: bytes of UB, L1, L0A, L0B, L0C, BT and FB, cube and
    // vector cores.
    uint32_t numbers[9] = {196608, 524288, 65536, 65536, 131072, 1024, 7168, 24, 48};
    if (const char* given = std::getenv("PYASC_SIM_CHIP")) {
        for (uint32_t& number : numbers) {
            char* end = nullptr;
            number = static_cast<uint32_t>(std::strtoul(given, &end, 10));
            given = *end ? end + 1 : end;
        }
    }
    std::copy_n(numbers, 7, s.chip.bytes + 1);
    s.chip.cube_cores = numbers[7];
    s.chip.vector_cores = numbers[8];
    if (machine().devices.size() < s.devices) machine().devices.resize(s.devices);
}

uint32_t number_of_driver(int32_t device) {
    const auto& visible = machine().settings.visible;
    const auto index = static_cast<uint32_t>(device);
    return index < visible.size() ? visible[index] : index;
}

Time clock_now() {
    // The device counts from when it was switched on, not from when the host was.
    constexpr Time difference = 1234567890123;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
               .count() +
           difference;
}

std::string text(const char* format, ...) {
    va_list list;
    va_start(list, format);
    char buffer[1024];
    std::vsnprintf(buffer, sizeof buffer, format, list);
    va_end(list);
    return buffer;
}

aclError fail(aclError code, const std::string& message) {
    said += (said.empty() ? "" : "\n") + message;
    last_error = code;
    return code;
}

void complain(const std::string& message) {
    if (machine().complaints.size() < most_complaints) machine().complaints.push_back(message);
}

aclError misuse(aclError code, const std::string& message) {
    complain(message);
    return fail(code, message);
}

aclError fault(const char* point) {
    auto& faults = machine().faults;
    if (faults.empty()) return success;
    aclError code = success;
    for (auto [it, end] = faults.equal_range(point); it != end;) {
        if (--it->second.nth == 0) {
            code = it->second.code;
            it = faults.erase(it);
        } else {
            ++it;
        }
    }
    return code;
}

Call::Call(const char* name, bool initialised) : error(success) {
    if (forked.load(std::memory_order_relaxed)) {
        error = fail(driver_error,
                     text("%s: the device belongs to the process that this one was forked from", name));
        return;
    }
    Machine& all = machine();
    lock = Lock(all.mutex);
    if (initialised && !all.initialised) {
        error = misuse(not_initialised, text("%s: aclInit was not called", name));
        return;
    }
    if ((error = fault(name)) != success) {
        fail(error, text("%s: %d was injected", name, error));
        return;
    }
    if (!current || !all.contexts.count(current)) return;
    const Device& device = all.devices[static_cast<size_t>(current->device)];
    if (device.lost && !gives_back(name))
        error = fail(device.lost, text("%s: device %d must be reset", name, current->device));
}

namespace {

aclError check_device(int32_t number) {
    if (number < 0 || static_cast<uint32_t>(number) >= machine().settings.devices)
        return misuse(invalid_device, text("there is no device %d", number));
    return success;
}

Context* make_context(int32_t device, bool own, aclError& error) {
    auto context = std::make_unique<Context>();
    context->device = device;
    context->own = own;
    context->stream = make_stream(*context, error);
    if (error) return nullptr;
    machine().contexts.insert(context.get());
    return context.release();
}

void destroy_context(Lock& lock, Context* context) {
    Machine& all = machine();
    std::vector<Stream*> streams;
    for (void* handle : all.streams)
        if (static_cast<Stream*>(handle)->context == context) streams.push_back(static_cast<Stream*>(handle));
    for (Stream* stream : streams) {
        if (stream != context->stream)
            complain(text("stream %u was not destroyed before its context", stream->id));
        destroy_stream(lock, stream, true);
    }
    all.contexts.erase(context);
    if (current == context) current = nullptr;
    const std::unique_ptr<Context> owned(context);
}

// Everything of a device goes: memory, events, binaries, contexts.
void reset_device(Lock& lock, int32_t number) {
    Machine& all = machine();
    Device& device = all.devices[static_cast<size_t>(number)];
    std::vector<Context*> contexts;
    for (void* handle : all.contexts)
        if (static_cast<Context*>(handle)->device == number)
            contexts.push_back(static_cast<Context*>(handle));
    for (Context* context : contexts) destroy_context(lock, context);
    for (auto it = all.memory.begin(); it != all.memory.end();) {
        if (it->second.device == number) {
            forget(it->second);
            it = all.memory.erase(it);
        } else {
            ++it;
        }
    }
    for (auto it = all.events.begin(); it != all.events.end();) {
        auto* event = static_cast<Event*>(*it);
        ++it;
        if (event->device == number) destroy_event(event);
    }
    device = Device{};
}

}  // namespace

aclError error_of_thread(bool clear) {
    const aclError error = last_error;
    if (clear) last_error = success;
    return error;
}

}  // namespace standin

using namespace standin;

ACL_EXPORT aclError aclrtGetLastError(int) { return error_of_thread(true); }
ACL_EXPORT aclError aclrtPeekAtLastError(int) { return error_of_thread(false); }

ACL_EXPORT aclError aclInit(const char*) {
    Call call("aclInit", false);
    if (call.error) return call.error;
    ++machine().users;
    if (machine().initialised) return fail(initialised_again, "aclInit was called before");
    read_settings();
    machine().initialised = true;
    return success;
}

static aclError finalize() {
    for (size_t i = 0; i < machine().devices.size(); ++i)
        if (machine().devices[i].references) complain(text("device %zu was not reset before aclFinalize", i));
    machine().initialised = false;
    machine().users = 0;
    return success;
}

ACL_EXPORT aclError aclFinalize(void) {
    Call call("aclFinalize");
    return call.error ? call.error : finalize();
}

// The last of those that called aclInit.
ACL_EXPORT aclError aclFinalizeReference(uint64_t* left) {
    Call call("aclFinalizeReference");
    if (call.error) return call.error;
    const aclError error = machine().users > 1 ? (--machine().users, success) : finalize();
    if (left) *left = machine().users;
    return error;
}

ACL_EXPORT aclError aclrtGetDeviceCount(uint32_t* count) {
    Call call("aclrtGetDeviceCount", false);
    if (call.error) return call.error;
    if (!machine().initialised) read_settings();
    if (machine().settings.devices == 0) return fail(207004, "there is no device");
    *count = machine().settings.devices;
    return success;
}

ACL_EXPORT aclError aclrtGetLogicDevIdByUserDevId(const int32_t number, int32_t* const of_driver) {
    Call call("aclrtGetLogicDevIdByUserDevId", false);
    if (call.error) return call.error;
    if (aclError error = check_device(number)) return error;
    *of_driver = static_cast<int32_t>(number_of_driver(number));
    return success;
}

ACL_EXPORT const char* aclrtGetSocName(void) {
    Call call("aclrtGetSocName", false);
    if (call.error) return nullptr;
    if (!machine().initialised) read_settings();
    static thread_local std::string name;
    name = machine().settings.soc;
    return name.c_str();
}

ACL_EXPORT aclError aclrtGetRunMode(aclrtRunMode* mode) {
    *mode = run_on_host;
    return success;
}

ACL_EXPORT aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1;
    *minor = 14;
    *patch = 0;
    return success;
}

ACL_EXPORT aclError aclrtSetDevice(int32_t number) {
    Call call("aclrtSetDevice");
    if (call.error) return call.error;
    if (aclError error = check_device(number)) return error;
    Device& device = machine().devices[static_cast<size_t>(number)];
    if (device.lost) return fail(device.lost, text("aclrtSetDevice: device %d must be reset", number));
    if (!device.primary) {
        aclError error = success;
        device.primary = make_context(number, false, error);
        if (error) return error;
    }
    ++device.references;
    current = device.primary;
    return success;
}

ACL_EXPORT aclError aclrtResetDevice(int32_t number) {
    Call call("aclrtResetDevice");
    if (call.error) return call.error;
    if (aclError error = check_device(number)) return error;
    Device& device = machine().devices[static_cast<size_t>(number)];
    if (device.references == 0) return misuse(invalid_device, text("device %d was not set", number));
    if (--device.references == 0) reset_device(call.lock, number);
    return success;
}

ACL_EXPORT aclError aclrtResetDeviceForce(int32_t number) {
    Call call("aclrtResetDeviceForce");
    if (call.error) return call.error;
    if (aclError error = check_device(number)) return error;
    reset_device(call.lock, number);
    return success;
}

ACL_EXPORT aclError aclrtGetDevice(int32_t* number) {
    Call call("aclrtGetDevice");
    if (call.error) return call.error;
    if (!current || !machine().contexts.count(current))
        return fail(no_context, "no device was set in this thread");
    *number = current->device;
    return success;
}

ACL_EXPORT aclError aclrtGetDeviceInfo(uint32_t number, aclrtDevAttr attribute, int64_t* value) {
    Call call("aclrtGetDeviceInfo");
    if (call.error) return call.error;
    if (aclError error = check_device(static_cast<int32_t>(number))) return error;
    const Settings& settings = machine().settings;
    switch (attribute) {
        case ai_cores:
        case cube_cores:
            *value = settings.chip.cube_cores;
            return success;
        case vector_cores:
            *value = settings.chip.vector_cores;
            return success;
        case memory_bytes:
            *value = static_cast<int64_t>(settings.memory);
            return success;
        case l2_bytes:
            *value = int64_t{192} << 20;
            return success;
    }
    return fail(bad_argument, text("there is no attribute %d", static_cast<int>(attribute)));
}

ACL_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t one, int32_t other) {
    Call call("aclrtDeviceCanAccessPeer");
    if (call.error) return call.error;
    *can = one != other;
    return success;
}

ACL_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t) {
    Call call("aclrtDeviceEnablePeerAccess");
    if (call.error) return call.error;
    if (aclError error = check_device(peer)) return error;
    if (!current) return misuse(no_context, "aclrtDeviceEnablePeerAccess without a context");
    machine().devices[static_cast<size_t>(current->device)].peers.insert(peer);
    return success;
}

ACL_EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peer) {
    Call call("aclrtDeviceDisablePeerAccess");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtDeviceDisablePeerAccess without a context");
    machine().devices[static_cast<size_t>(current->device)].peers.erase(peer);
    return success;
}

ACL_EXPORT aclError aclrtCreateContext(aclrtContext* made, int32_t number) {
    Call call("aclrtCreateContext");
    if (call.error) return call.error;
    if (aclError error = check_device(number)) return error;
    aclError error = success;
    Context* context = make_context(number, true, error);
    if (error) return error;
    current = context;
    *made = context;
    return success;
}

ACL_EXPORT aclError aclrtDestroyContext(aclrtContext handle) {
    Call call("aclrtDestroyContext");
    if (call.error) return call.error;
    if (!machine().contexts.count(handle))
        return misuse(no_context, "aclrtDestroyContext: there is no such context");
    auto* context = static_cast<Context*>(handle);
    if (!context->own) return misuse(no_context, "aclrtDestroyContext of a device's own context");
    destroy_context(call.lock, context);
    return success;
}

ACL_EXPORT aclError aclrtSetCurrentContext(aclrtContext handle) {
    Call call("aclrtSetCurrentContext");
    if (call.error && !machine().contexts.count(handle)) return call.error;
    if (!machine().contexts.count(handle))
        return misuse(no_context, "aclrtSetCurrentContext: there is no such context");
    current = static_cast<Context*>(handle);
    return success;
}

ACL_EXPORT aclError aclrtGetCurrentContext(aclrtContext* handle) {
    Call call("aclrtGetCurrentContext");
    if (call.error) return call.error;
    if (!current || !machine().contexts.count(current)) return fail(no_context, "this thread has no context");
    *handle = current;
    return success;
}

// Gives the text once.
ACL_EXPORT const char* aclGetRecentErrMsg(void) {
    if (said.empty()) return nullptr;
    shown.swap(said);
    said.clear();
    return shown.c_str();
}
