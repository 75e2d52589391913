// When work ran on the device, on the host's clock.
#include <time.h>

#include <algorithm>
#include <limits>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

// The clocks are compared so often, and the narrowest comparison is believed.
constexpr int comparisons = 5;

// An event that was reached has its time a moment later: so often it is asked, and so long between.
constexpr int most_questions = 200;
constexpr timespec between_questions{0, 100'000};

int64_t host_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

void* event_of(uint64_t handle) { return reinterpret_cast<void*>(handle); }

}  // namespace

uint64_t Device::State::record_time(Lane which) {
    void* event = new_event(true);
    const int result = acl->aclrtRecordEvent(event, lane[index_of(which)].stream);
    if (result != code::success) free_timed.push_back(event);
    checked("aclrtRecordEvent", result, which);
    return reinterpret_cast<uint64_t>(event);
}

Device::Span Device::begin_span(Lane lane) {
    State& s = *state_;
    s.enter_check();
    s.throw_if_failed();
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    return {s.record_time(lane), 0};
}

void Device::end_span(Lane lane, Span& span) { span.end = begin_span(lane).begin; }

void Device::drop(const Span& span) noexcept {
    State& s = *state_;
    const std::lock_guard<std::mutex> lock(s.mutex);
    for (const uint64_t handle : {span.begin, span.end})
        if (std::find(s.timed.begin(), s.timed.end(), event_of(handle)) != s.timed.end())
            s.free_timed.push_back(event_of(handle));
}

std::optional<std::pair<int64_t, int64_t>> Device::time(const Span& span, int patience_ms) {
    State& s = *state_;
    s.enter_check();
    const Entered entered(*s.acl, s.context);
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        if (std::find(s.timed.begin(), s.timed.end(), event_of(span.end)) == s.timed.end())
            return std::nullopt;  // of before a reset
    }
    // Behind work that hangs, or that was dropped, it never is.
    if (!s.wait_event(event_of(span.end), patience_ms)) return std::nullopt;
    const int64_t seen = host_now();

    // An event in an empty stream happens between its recording and its being seen.
    const auto compare = [&] {
        void* stream = nullptr;
        check("aclrtCreateStream", s.acl->aclrtCreateStream(&stream));
        void* event = nullptr;
        {
            const std::lock_guard<std::mutex> lock(s.mutex);
            event = s.new_event(true);
        }
        int64_t narrowest = std::numeric_limits<int64_t>::max(), offset = 0;
        int result = code::success;
        for (int k = 0; k < comparisons && result == code::success; ++k) {
            const int64_t before = host_now();
            uint64_t microseconds = 0;
            result = s.acl->aclrtRecordEvent(event, stream);
            if (result == code::success) result = s.acl->aclrtSynchronizeStreamWithTimeout(stream, 1000);
            const int64_t after = host_now();
            if (result == code::success) result = s.acl->aclrtEventGetTimestamp(event, &microseconds);
            if (result != code::success || after - before >= narrowest) continue;
            narrowest = after - before;
            offset = before + narrowest / 2 - static_cast<int64_t>(microseconds) * 1000;
        }
        s.acl->aclrtDestroyStream(stream);
        const std::lock_guard<std::mutex> lock(s.mutex);
        s.free_timed.push_back(event);
        check("aclrtEventGetTimestamp", result);
        s.clock_offset = offset;
    };
    if (s.acl->aclrtEventGetTimestamp && !s.clock_offset) compare();

    const std::lock_guard<std::mutex> lock(s.mutex);
    float milliseconds = 0;
    int result = code::success;
    for (int k = 0; k < most_questions; ++k) {
        result = s.acl->aclrtEventElapsedTime(&milliseconds, event_of(span.begin), event_of(span.end));
        if (result != code::event_without_time) break;
        drop_message(*s.acl);
        nanosleep(&between_questions, nullptr);
    }
    check("aclrtEventElapsedTime", result);
    const auto length = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    // Without the device's own time it ended, at the latest, when that was seen.
    int64_t end = seen;
    uint64_t microseconds = 0;
    if (s.clock_offset && s.acl->aclrtEventGetTimestamp(event_of(span.end), &microseconds) == code::success)
        end = static_cast<int64_t>(microseconds) * 1000 + *s.clock_offset;
    s.free_timed.push_back(event_of(span.begin));
    s.free_timed.push_back(event_of(span.end));
    return std::pair{end - length, end};
}

}  // namespace pyasc::npu
