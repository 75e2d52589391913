// Memory of devices, page-locked memory of the host, and copies.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "standin.hpp"

namespace standin {

namespace {

constexpr size_t page = 4096, fully_filled = size_t{4} << 20, filled_end = size_t{1} << 20;
constexpr uint8_t fresh = 0xC7, freed = 0xDB;  // as float32 −1e5 and −1e17, as float16 −7.8 and −251
constexpr size_t many_uses = 48;

void fill(uint8_t* bytes, size_t size, uint8_t pattern) {
    if (size <= fully_filled) {
        std::memset(bytes, pattern, size);
    } else {  // memory of which most is never touched stays without pages
        std::memset(bytes, pattern, filled_end);
        std::memset(bytes + size - filled_end, pattern, filled_end);
    }
}

size_t whole(size_t size) { return (size + page - 1) / page * page; }

uint8_t* reserve(size_t size) {
    // One page more, at the end, that nobody may touch.
    void* got = mmap(nullptr, whole(size) + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return nullptr;
    mprotect(static_cast<uint8_t*>(got) + whole(size), page, PROT_NONE);
    return static_cast<uint8_t*>(got);
}

std::string place(const std::pair<const uintptr_t, Memory>& memory, const void* address) {
    return text("0x%llx, byte %llu of %zu", static_cast<unsigned long long>(memory.first),
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address) - memory.first),
                memory.second.size);
}

// The first use that conflicts and is not covered.
const Memory::Use* conflict(const Memory& memory, const Clock& clock, uint64_t from, uint64_t to,
                            bool write) {
    for (const Memory::Use& use : memory.uses)
        if (use.from < to && from < use.to && (write || use.write) && !covers(clock, use.stream, use.number))
            return &use;
    return nullptr;
}

aclError allocate(void** made, size_t size) {
    Machine& all = machine();
    if (!current || !all.contexts.count(current)) return misuse(no_context, "aclrtMalloc without a context");
    if (size == 0) return misuse(bad_argument, "aclrtMalloc of 0 bytes");
    Device& device = all.devices[static_cast<size_t>(current->device)];
    uint8_t* bytes = device.used + size <= all.settings.memory ? reserve(size) : nullptr;
    if (!bytes)
        return fail(out_of_memory, text("aclrtMalloc of %zu bytes: %zu of %llu are used", size, device.used,
                                        static_cast<unsigned long long>(all.settings.memory)));
    fill(bytes, size, fresh);
    device.used += size;
    device.peak = std::max(device.peak, device.used);
    const uintptr_t address = reinterpret_cast<uintptr_t>(bytes) + device_offset;
    all.memory.emplace(address, Memory{bytes, size, current->device, {}});
    *made = reinterpret_cast<void*>(address);
    return success;
}

aclError release(const char* name, void* address, bool host) {
    Machine& all = machine();
    const auto it = all.memory.find(reinterpret_cast<uintptr_t>(address));
    if (it == all.memory.end() || (it->second.device < 0) != host)
        return misuse(bad_argument, text("%s: %p is not the start of memory that is in use", name, address));
    for (const Memory::Use& use : it->second.uses)
        if (!covers(all.observed, use.stream, use.number))
            return misuse(cannot_free,
                          text("%s: task %llu of stream %u, %s, uses it and was not waited for", name,
                               static_cast<unsigned long long>(use.number), use.stream, use.what));
    if (!host) all.devices[static_cast<size_t>(it->second.device)].used -= it->second.size;
    forget(it->second);
    all.memory.erase(it);
    return success;
}

// What is wrong with one side of a copy, or "".
std::string wrong_side(const char* side, const void* address, size_t bytes, bool device, bool pinned) {
    const auto* memory = find(address);
    if (device) {
        if (!memory || memory->second.device < 0)
            return text("the %s, %p, is not in memory of a device", side, address);
    } else {
        if (memory && memory->second.device >= 0)
            return text("the %s, %p, is in memory of a device", side, address);
        if (!memory && reinterpret_cast<uintptr_t>(address) >= device_offset * 2)
            return text("the %s, %p, is in no memory", side, address);
        if (!memory && pinned) return text("the %s, %p, is not page-locked (aclrtMallocHost)", side, address);
    }
    if (memory && reinterpret_cast<uintptr_t>(address) + bytes > memory->first + memory->second.size)
        return text("the %s, %s, ends before the %zu bytes do", side, place(*memory, address).c_str(), bytes);
    return "";
}

// Checks a copy and finds out which sides are a device's.
aclError check_copy(const char* name, void* to, size_t limit, const void* from, size_t bytes,
                    aclrtMemcpyKind kind, bool pinned) {
    if (bytes == 0) return misuse(bad_argument, text("%s of 0 bytes", name));
    if (bytes > limit) return misuse(bad_argument, text("%s of %zu bytes to %zu", name, bytes, limit));
    bool to_device = kind == host_to_device || kind == device_to_device || kind >= staged_to_device;
    bool from_device = kind == device_to_host || kind == device_to_device || kind >= within_device;
    if (kind == any_direction) {
        to_device = of_device(to);
        from_device = of_device(from);
    }
    if (pinned && !to_device && !from_device)
        return misuse(unsupported, text("%s within the host's memory", name));
    std::string wrong = wrong_side("target", to, bytes, to_device, pinned);
    if (wrong.empty()) wrong = wrong_side("source", from, bytes, from_device, pinned);
    if (!wrong.empty()) return misuse(bad_argument, text("%s: %s", name, wrong.c_str()));
    if (to_device && from_device) {
        const int32_t here = find(to)->second.device, there = find(from)->second.device;
        const auto& devices = machine().devices;
        if (here != there && !devices[static_cast<size_t>(here)].peers.count(there) &&
            !devices[static_cast<size_t>(there)].peers.count(here))
            return misuse(bad_argument, text("%s from device %d to %d without aclrtDeviceEnablePeerAccess",
                                             name, there, here));
    }
    return success;
}

// What the host does itself must come after what it has waited for.
void touch_by_host(const char* name, const void* address, size_t bytes, bool write) {
    auto* memory = find(address);
    if (!memory) return;
    const uint64_t from = reinterpret_cast<uintptr_t>(address) - memory->first;
    if (const auto* use = conflict(memory->second, machine().observed, from, from + bytes, write))
        complain(text("race: %s of %s, and %s, task %llu of stream %u, was not waited for", name,
                      place(*memory, address).c_str(), use->what,
                      static_cast<unsigned long long>(use->number), use->stream));
}

// That a task will use memory: it must not be freed before.
void hold(const void* address, uint32_t stream, uint64_t number, const char* what) {
    auto* memory = find(address);
    if (!memory) return;
    for (Memory::Use& use : memory->second.uses)
        if (use.stream == stream && use.from == use.to) {
            use.number = number;
            return;
        }
    memory->second.uses.push_back({stream, number, 0, 0, false, what});
}

}  // namespace

std::pair<const uintptr_t, Memory>* find(const void* address) {
    auto& memory = machine().memory;
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto it = memory.upper_bound(at);
    if (it == memory.begin()) return nullptr;
    --it;
    return at < it->first + it->second.size ? &*it : nullptr;
}

bool of_device(const void* address) {
    const auto* memory = find(address);
    return memory && memory->second.device >= 0;
}

uint8_t* real(const void* address) {
    const auto* memory = find(address);
    if (!memory) return static_cast<uint8_t*>(const_cast<void*>(address));
    return memory->second.bytes + (reinterpret_cast<uintptr_t>(address) - memory->first);
}

void forget(Memory& memory) {
    fill(memory.bytes, memory.size, freed);
    munmap(memory.bytes, whole(memory.size) + page);
}

void touch(std::pair<const uintptr_t, Memory>& at, const Stream& stream, const Task& task, uint64_t from,
           uint64_t to, bool write, const char* what) {
    Memory& memory = at.second;
    if (const auto* use = conflict(memory, task.clock, from, to, write))
        complain(text(
            "race: bytes %llu to %llu of the %zu at 0x%llx: %s (%s), task %llu of stream %u, and %s (%s), "
            "task %llu of stream %u, are not ordered",
            static_cast<unsigned long long>(std::max(from, use->from)),
            static_cast<unsigned long long>(std::min(to, use->to)), memory.size,
            static_cast<unsigned long long>(at.first), what, write ? "writes" : "reads",
            static_cast<unsigned long long>(task.number), stream.id, use->what,
            use->write ? "writes" : "reads", static_cast<unsigned long long>(use->number), use->stream));
    auto& uses = memory.uses;
    if (uses.size() > many_uses)
        uses.erase(std::remove_if(uses.begin(), uses.end(),
                                  [](const Memory::Use& use) {
                                      return use.from != use.to &&
                                             covers(machine().observed, use.stream, use.number);
                                  }),
                   uses.end());
    for (Memory::Use& use : uses)
        if (use.stream == stream.id && use.from == from && use.to == to && use.write == write) {
            use.number = task.number;
            use.what = what;
            return;
        }
    uses.push_back({stream.id, task.number, from, to, write, what});
}

void hold_all(const Task& task, uint32_t stream) {
    if (task.kind == Task::Kind::Copy || task.kind == Task::Kind::Set) {
        hold(task.to, stream, task.number, "a copy");
        if (task.from) hold(task.from, stream, task.number, "a copy");
    } else if (task.kind == Task::Kind::Kernel) {
        const Kernel& kernel = *task.function->kernel;
        for (uint32_t i = 0; i < kernel.count; ++i) {
            if (!kernel.parameters[i].pointer) continue;
            void* address = nullptr;
            std::memcpy(&address, task.arguments.data() + kernel.parameters[i].offset, sizeof address);
            hold(address, stream, task.number, kernel.name);
        }
    }
}

}  // namespace standin

using namespace standin;

ACL_EXPORT aclError aclrtMalloc(void** made, size_t size, aclrtMemMallocPolicy) {
    Call call("aclrtMalloc");
    return call.error ? call.error : allocate(made, size);
}

ACL_EXPORT aclError aclrtMallocAlign32(void** made, size_t size, aclrtMemMallocPolicy) {
    Call call("aclrtMallocAlign32");
    return call.error ? call.error : allocate(made, size);
}

ACL_EXPORT aclError aclrtFree(void* address) {
    Call call("aclrtFree");
    return call.error ? call.error : release("aclrtFree", address, false);
}

ACL_EXPORT aclError aclrtMallocHost(void** made, size_t size) {
    Call call("aclrtMallocHost");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtMallocHost without a context");
    if (size == 0) return misuse(bad_argument, "aclrtMallocHost of 0 bytes");
    uint8_t* bytes = reserve(size);
    if (!bytes) return fail(out_of_memory, text("aclrtMallocHost of %zu bytes", size));
    fill(bytes, size, fresh);
    machine().memory.emplace(reinterpret_cast<uintptr_t>(bytes), Memory{bytes, size, -1, {}});
    *made = bytes;
    return success;
}

ACL_EXPORT aclError aclrtFreeHost(void* address) {
    Call call("aclrtFreeHost");
    return call.error ? call.error : release("aclrtFreeHost", address, true);
}

ACL_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
    Call call("aclrtGetMemInfo");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtGetMemInfo without a context");
    *total = machine().settings.memory;
    *free = *total - machine().devices[static_cast<size_t>(current->device)].used;
    return success;
}

ACL_EXPORT aclError aclrtMemcpy(void* to, size_t limit, const void* from, size_t bytes,
                                aclrtMemcpyKind kind) {
    Call call("aclrtMemcpy");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtMemcpy without a context");
    if (aclError error = check_copy("aclrtMemcpy", to, limit, from, bytes, kind, false)) return error;
    touch_by_host("aclrtMemcpy", to, bytes, true);
    touch_by_host("aclrtMemcpy", from, bytes, false);
    std::memcpy(real(to), real(from), bytes);
    ++machine().copies;
    return success;
}

ACL_EXPORT aclError aclrtMemcpyAsync(void* to, size_t limit, const void* from, size_t bytes,
                                     aclrtMemcpyKind kind, aclrtStream handle) {
    Call call("aclrtMemcpyAsync");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    if ((error = check_copy("aclrtMemcpyAsync", to, limit, from, bytes, kind, true))) return error;
    Task task(Task::Kind::Copy);
    task.to = static_cast<uint8_t*>(to);
    task.from = static_cast<const uint8_t*>(from);
    task.bytes = bytes;
    task.within = of_device(to) && of_device(from) && find(to)->second.device == find(from)->second.device;
    ++machine().copies;
    return submit(*stream, std::move(task));
}

ACL_EXPORT aclError aclrtMemset(void* to, size_t limit, int32_t value, size_t bytes) {
    Call call("aclrtMemset");
    if (call.error) return call.error;
    if (bytes == 0 || bytes > limit || !wrong_side("target", to, bytes, true, false).empty())
        return misuse(bad_argument, text("aclrtMemset of %zu bytes at %p", bytes, to));
    touch_by_host("aclrtMemset", to, bytes, true);
    std::memset(real(to), value, bytes);
    return success;
}

ACL_EXPORT aclError aclrtMemsetAsync(void* to, size_t limit, int32_t value, size_t bytes,
                                     aclrtStream handle) {
    Call call("aclrtMemsetAsync");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    if (bytes == 0 || bytes > limit || !wrong_side("target", to, bytes, true, false).empty())
        return misuse(bad_argument, text("aclrtMemsetAsync of %zu bytes at %p", bytes, to));
    Task task(Task::Kind::Set);
    task.to = static_cast<uint8_t*>(to);
    task.bytes = bytes;
    task.value = value;
    task.within = true;
    return submit(*stream, std::move(task));
}
