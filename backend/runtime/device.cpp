#include <array>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

constexpr int most_devices = 256;
// How long work may take that nobody waits for any more: at the end, and before it is given up.
constexpr int patience_ms = 1000;

std::mutex& registry_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
}

std::array<std::atomic<Device*>, most_devices>& registry() {
    static auto& devices = *new std::array<std::atomic<Device*>, most_devices>{};
    return devices;
}

}  // namespace

Device::Device(int number) : state_(std::make_unique<State>(*this, number)) {}
Device::~Device() = default;
void Device::close() noexcept { state_->close(false); }

Device& Device::open(int number) {
    refuse_after_fork();
    if (number < 0 || number >= most_devices) fail("aclrtSetDevice", 107001);
    Device* device = registry()[static_cast<size_t>(number)].load(std::memory_order_acquire);
    if (device && device->state_->is_open.load(std::memory_order_acquire)) return *device;
    const std::lock_guard<std::mutex> lock(registry_mutex());
    auto& place = registry()[static_cast<size_t>(number)];
    device = place.load(std::memory_order_acquire);
    if (!device) {
        device = new Device(number);  // never destroyed
        place.store(device, std::memory_order_release);
    }
    if (!device->state_->is_open.load(std::memory_order_acquire)) device->state_->open();
    return *device;
}

Device* Device::find(int number) noexcept {
    Device* device = forked() ? nullptr : known(number);
    return device && device->state_->is_open.load(std::memory_order_acquire) ? device : nullptr;
}

Device* Device::known(int number) noexcept {
    if (number < 0 || number >= most_devices) return nullptr;
    return registry()[static_cast<size_t>(number)].load(std::memory_order_acquire);
}

int Device::count() {
    const Acl& acl = Acl::get();
    uint32_t count = 0;
    check("aclrtGetDeviceCount", acl.aclrtGetDeviceCount(&count));
    return static_cast<int>(std::min<uint32_t>(count, most_devices));
}

std::string Device::soc_name() {
    const char* name = Acl::get().aclrtGetSocName();
    return name ? name : "";
}

int Device::number() const { return state_->number; }
uint64_t Device::era() const { return state_->era.load(std::memory_order_acquire); }

void Device::State::open() {
    Acl& table = Acl::get();
    // The default context, which other libraries in the process use too: so streams can be shared with them.
    // The thread's own comes back afterwards.
    void* before = nullptr;
    if (table.aclrtGetCurrentContext(&before) != code::success) {
        drop_message(table);
        before = nullptr;
    }
    check("aclrtSetDevice", table.aclrtSetDevice(number));
    try {
        check("aclrtGetCurrentContext", table.aclrtGetCurrentContext(&context));
        acl = &table;
        const std::lock_guard<std::mutex> lock(mutex);
        make_streams();
        const std::lock_guard<std::mutex> memory_lock(memory_mutex);
        for (void* address : orphans) table.aclrtFreeHost(address);
        orphans.clear();
    } catch (...) {
        destroy_streams(true);
        table.aclrtResetDevice(number);
        throw;
    }
    if (before && before != context) table.aclrtSetCurrentContext(before);
    is_open.store(true, std::memory_order_release);
}

void Device::State::forget_failure() noexcept {
    const std::lock_guard<std::mutex> lock(failure_mutex);
    failure.reset();
    failed.store(false, std::memory_order_release);
}

void Device::State::make_streams() {
    for (LaneState& state : lane) {
        void* stream = nullptr;
        if (acl->aclrtCreateStreamWithConfig)
            check("aclrtCreateStreamWithConfig",
                  acl->aclrtCreateStreamWithConfig(&stream, 0, fast_launch | fast_synchronize));
        else
            check("aclrtCreateStream", acl->aclrtCreateStream(&stream));
        if (!state.stream || state.stream == state.own) state.stream = stream;
        state.own = stream;
        state.id = -1;
        if (acl->aclrtStreamGetId && acl->aclrtStreamGetId(state.stream, &state.id) != code::success)
            state.id = -1;
        if (state.launches.empty()) state.launches.resize(ring);
    }
}

void Device::State::destroy_streams(bool force) noexcept {
    for (LaneState& state : lane) {
        if (!state.own || !acl) continue;
        if (force && acl->aclrtDestroyStreamForce)
            acl->aclrtDestroyStreamForce(state.own);
        else
            acl->aclrtDestroyStream(state.own);
        if (state.stream == state.own) state.stream = nullptr;
        state.own = nullptr;
    }
}

void Device::State::close(bool force) noexcept {
    if (!is_open.load(std::memory_order_acquire)) return;
    try {
        const Entered entered(*acl, context);
        const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
        bool finished = !force;
        for (size_t k = 0; k < lanes && finished; ++k) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
            const std::shared_lock<std::shared_mutex> alive(streams);
            const int result = acl->aclrtSynchronizeStreamWithTimeout(
                lane[k].stream, static_cast<int32_t>(std::max<int64_t>(left, 1)));
            finished = result != code::stream_timeout;
        }
        is_open.store(false, std::memory_order_release);
        const std::unique_lock<std::shared_mutex> alone(streams);
        const std::lock_guard<std::mutex> lock(mutex);
        if (!finished && acl->aclrtStreamAbort)
            for (LaneState& state : lane) acl->aclrtStreamAbort(state.own);
        if (acl->aclrtBinaryUnLoad)  // also those that were loaded while the device was closed
            for (void* binary : binaries) acl->aclrtBinaryUnLoad(binary);
        for (void* event : events) acl->aclrtDestroyEvent(event);
        for (void* event : timed) acl->aclrtDestroyEvent(event);
        destroy_streams(!finished);
        forget_memory();
        forget_lanes();  // with `mutex` held: who waits for that finds no stream and no event any more
    } catch (const Failure&) {
        // The device does not answer: its reset takes everything back.
    }
    is_open.store(false, std::memory_order_release);
    {
        const std::lock_guard<std::mutex> lock(mutex);
        forget_lanes();
    }
    forget_failure();
    era.fetch_add(1, std::memory_order_acq_rel);
    if (force && acl->aclrtResetDeviceForce)
        acl->aclrtResetDeviceForce(number);
    else
        acl->aclrtResetDevice(number);
}

void Device::State::forget_lanes() noexcept {
    for (auto* all : {&events, &timed, &free_events, &free_timed}) all->clear();
    for (size_t k = 0; k < lanes; ++k) {
        LaneState& state = lane[k];
        state.marks.clear();
        state.own = state.stream = nullptr;
        state.verified = state.issued;
        state.after = {};
        done[k].store(state.issued, std::memory_order_release);
    }
    retired.clear();
    binaries.clear();
    peers.clear();
    ffts = nullptr;
    clock_offset.reset();
    context = nullptr;
}

Uses Device::settle() {
    State& s = *state_;
    s.enter_check();
    Uses through = s.done_now();
    if (!s.failed.load(std::memory_order_acquire)) return through;
    // Other work in the lanes goes on after a failure, and others' data are in it: it is given up only if it
    // hangs.
    const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
    for (size_t k = 0; k < lanes; ++k) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        const std::shared_lock<std::shared_mutex> alive(s.streams);
        const Entered entered(*s.acl, s.context);
        const int result = s.acl->aclrtSynchronizeStreamWithTimeout(
            s.lane[k].stream, static_cast<int32_t>(std::max<int64_t>(left, 1)));
        const std::lock_guard<std::mutex> lock(s.mutex);
        if (loses_device(result)) s.lose("aclrtSynchronizeStreamWithTimeout", result, "");
        // Nothing is put into a lane after a failure.
        if (result != code::stream_timeout) {
            through[k] = s.lane[k].issued;
            continue;
        }
        try {
            s.poll(static_cast<Lane>(k));
        } catch (const Failure&) {
        }
        through[k] = s.done[k].load(std::memory_order_acquire);
    }
    return through;
}

// Remembers that it must be reset.
void Device::State::lose(const char* call, int code, const char* message) {
    std::vector<std::pair<uint64_t, int64_t>> meant;
    {
        const std::lock_guard<std::mutex> lock(failure_mutex);
        if (failure) meant = failure->launches;
    }
    keep_failure({call, code, message, true, std::move(meant)});
}

void Device::recover(const Uses& through) {
    State& s = *state_;
    s.enter_check();
    if (!s.failed.load(std::memory_order_acquire)) return;
    {
        const std::lock_guard<std::mutex> lock(s.failure_mutex);
        if (!s.failure) return;
        if (s.failure->lost) throw Failure(*s.failure);
    }
    const std::unique_lock<std::shared_mutex> alone(s.streams);
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    for (size_t k = 0; k < lanes; ++k) {
        if (through[k] >= s.lane[k].issued) continue;
        if (!s.acl->aclrtStreamAbort)
            s.lose("aclrtStreamAbort", code::hung, "this toolkit cannot stop a stream");
        const int result = s.acl->aclrtStreamAbort(s.lane[k].stream);
        if (result != code::success)
            s.lose("aclrtStreamAbort", result, "a stream that hangs could not be stopped");
    }
    // Another library's stream is that library's; it stays in place.
    s.destroy_streams(false);
    try {
        s.make_streams();
    } catch (const Failure& failure) {
        s.lose(failure.call.c_str(), failure.code, failure.message.c_str());
    }
    for (size_t k = 0; k < lanes; ++k) {
        LaneState& state = s.lane[k];
        for (const Mark& mark : state.marks) s.free_events.push_back(mark.event);
        state.marks.clear();
        state.verified = state.issued;
        state.after = {};
        s.done[k].store(state.issued, std::memory_order_release);
    }
    take_exceptions(s.number);
    drop_message(*s.acl);
    s.forget_failure();
}

void Device::reset() {
    refuse_after_fork();
    const std::lock_guard<std::mutex> lock(registry_mutex());
    state_->close(true);
    take_exceptions(state_->number);
    state_->open();
}

void Device::use_stream(void* stream) {
    State& s = *state_;
    s.enter_check();
    const Entered entered(*s.acl, s.context);
    const std::lock_guard<std::mutex> lock(s.mutex);
    LaneState& state = s.lane[index_of(Lane::compute)];
    void* const next = stream ? stream : state.own;
    if (next == state.stream) return;
    // What the lane did so far comes before what it does from now on, in whatever stream.
    if (!s.reached({Lane::compute, state.issued})) {
        if (state.marks.empty() || state.marks.back().number < state.issued) s.record(Lane::compute);
        s.checked("aclrtStreamWaitEvent", s.acl->aclrtStreamWaitEvent(next, state.marks.back().event));
    }
    state.stream = next;
    state.after = {};
    state.id = -1;
    if (s.acl->aclrtStreamGetId && s.acl->aclrtStreamGetId(next, &state.id) != code::success) state.id = -1;
}

void* Device::stream(Lane lane) {
    State& s = *state_;
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    return s.lane[index_of(lane)].stream;
}

void shut_down() noexcept {
    if (!Acl::loaded()) return;
    const std::lock_guard<std::mutex> lock(registry_mutex());
    for (std::atomic<Device*>& place : registry())
        if (Device* device = place.load(std::memory_order_acquire)) device->close();
    Acl::finalize();
}

}  // namespace pyasc::npu
