// What tests ask of the machine, and do to it.
#include <algorithm>
#include <cstring>

#include "standin.hpp"

using namespace standin;

namespace {

size_t give(const std::string& text, char* into, size_t size) {
    if (into && size) {
        const size_t count = std::min(size - 1, text.size());
        std::memcpy(into, text.data(), count);
        into[count] = 0;
    }
    return text.size() + 1;
}

}  // namespace

// The nth call from now on, or the nth task that runs ("kernel", "copy"), fails with a code; the nth kernel
// hangs until it is aborted ("hang"), or takes that many milliseconds more ("slow").
ACL_EXPORT void standin_inject(const char* point, uint64_t nth, int code) {
    const Lock lock(machine().mutex);
    machine().faults.insert({point, {nth, code}});
}

// Faults that did not happen yet go.
ACL_EXPORT void standin_clear_faults(void) {
    const Lock lock(machine().mutex);
    machine().faults.clear();
}

ACL_EXPORT uint64_t standin_count(const char* what) {
    Machine& all = machine();
    const Lock lock(all.mutex);
    const std::string name = what;
    uint64_t bytes = 0, blocks = 0, pinned = 0, own = 0, pending = 0, peak = 0;
    for (const auto& [address, memory] : all.memory) {
        (memory.device < 0 ? pinned : bytes) += memory.size;
        blocks += memory.device >= 0;
    }
    for (void* handle : all.contexts) own += static_cast<Context*>(handle)->stream != nullptr;
    for (void* handle : all.streams) {
        const auto* stream = static_cast<Stream*>(handle);
        pending += stream->submitted - stream->done;
    }
    for (const Device& device : all.devices) peak += device.peak;
    if (name == "memory") return bytes;
    if (name == "blocks") return blocks;
    if (name == "peak") return peak;
    if (name == "pinned") return pinned;
    if (name == "events") return all.events.size();
    if (name == "streams") return all.streams.size() - own;
    if (name == "contexts") return all.contexts.size();
    if (name == "binaries") return all.libraries.size();
    if (name == "launches") return all.launches;
    if (name == "copies") return all.copies;
    if (name == "pending") return pending;
    if (name == "complaints") return all.complaints.size();
    if (name == "faults") return all.faults.size();
    if (name == "initialised") return all.initialised;
    return UINT64_MAX;
}

// Misuse, races between streams and what checks found in kernels, a line each; returns the bytes there are.
ACL_EXPORT size_t standin_complaints(char* into, size_t size) {
    const Lock lock(machine().mutex);
    std::string lines;
    for (const std::string& one : machine().complaints) lines += one + "\n";
    return give(lines, into, size);
}

ACL_EXPORT void standin_clear_complaints(void) {
    const Lock lock(machine().mutex);
    machine().complaints.clear();
}

// Begins an empty timeline, or ends it.
ACL_EXPORT void standin_keep_timeline(int keep) {
    const Lock lock(machine().mutex);
    machine().keep_timeline = keep;
    if (keep) machine().timeline.clear();
}

// Lines of device, stream, kind, name, begin and end (nanoseconds of the device's clock), with tabs.
ACL_EXPORT size_t standin_timeline(char* into, size_t size) {
    const Lock lock(machine().mutex);
    std::string lines;
    for (const Span& span : machine().timeline)
        lines += text("%d\t%u\t%s\t%s\t%lld\t%lld\n", span.device, span.stream, span.kind, span.name.c_str(),
                      static_cast<long long>(span.begin), static_cast<long long>(span.end));
    return give(lines, into, size);
}

// Reads the environment again; faults, complaints, the timeline and counts of what was done begin anew.
ACL_EXPORT void standin_reset(void) {
    Machine& all = machine();
    const Lock lock(all.mutex);
    read_settings();
    all.faults.clear();
    all.complaints.clear();
    all.timeline.clear();
    all.keep_timeline = false;
    all.launches = all.copies = 0;
    all.execute_timeout_s = 0;
    for (Device& device : all.devices) device.peak = device.used;
}

// As somebody else would who has the handle; its work is dropped.
ACL_EXPORT int standin_destroy_stream(void* handle) {
    Machine& all = machine();
    Lock lock(all.mutex);
    if (!all.streams.count(handle)) return foreign_stream;
    auto* stream = static_cast<Stream*>(handle);
    destroy_stream(lock, stream, true);
    all.progress.notify_all();
    return success;
}

// Every call for a device fails with a code until it is reset.
ACL_EXPORT void standin_lose(int32_t device, int code) {
    const Lock lock(machine().mutex);
    machine().devices[static_cast<size_t>(device)].lost = code;
}
