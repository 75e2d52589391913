// Order between lanes, waiting, and what became of work that failed.
//
// A kernel or copy that fails does not stop its stream: ACL goes on with what comes next, events are reached
// as ever, and only synchronising that very stream returns the code. So reaching a ticket is not enough to
// trust what it made: the lanes that it builds on are asked too, when they are empty, or, while they have
// more to do, through the exceptions that ACL reports as they happen; where it reports none, they are waited
// for.
#include <time.h>

#include <algorithm>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

constexpr std::array<Lane, lanes> all_lanes{Lane::compute, Lane::second, Lane::upload, Lane::download};
constexpr std::array<Lane, 2> compute_lanes{Lane::compute, Lane::second};

constexpr int spin_us = 40;
constexpr int64_t first_sleep_ns = 20'000;
constexpr int64_t longest_sleep_ns = 200'000;

bool is_copying(Lane which) { return which == Lane::upload || which == Lane::download; }

bool timed_out(int code) { return code == code::stream_timeout || code == code::event_timeout; }

// Calls ready() until it is true or the time is over: without a pause first, then at growing intervals, so
// that short work is seen at once and long work costs no processor.
template <class F>
bool wait_until(F ready, Clock::time_point end) {
    const Clock::time_point spin_end = std::min(end, Clock::now() + std::chrono::microseconds(spin_us));
    do {
        if (ready()) return true;
    } while (Clock::now() < spin_end);
    int64_t interval = first_sleep_ns;
    while (Clock::now() < end) {
        const timespec pause{0, static_cast<long>(interval)};
        nanosleep(&pause, nullptr);
        if (ready()) return true;
        interval = std::min(interval * 2, longest_sleep_ns);
    }
    return false;
}

}  // namespace

void* Device::State::new_event(bool is_timed) {
    std::vector<void*>& free = is_timed ? free_timed : free_events;
    if (free.empty() && !is_timed)
        for (const Lane which : all_lanes) poll(which);
    if (!free.empty()) {
        void* event = free.back();
        free.pop_back();
        return event;
    }
    void* event = nullptr;
    checked("aclrtCreateEventExWithFlag",
            acl->aclrtCreateEventExWithFlag(&event, is_timed ? event_sync | event_timeline : event_sync));
    (is_timed ? timed : events).push_back(event);
    return event;
}

void Device::State::record(Lane which) {
    LaneState& state = lane[index_of(which)];
    void* event = new_event(false);
    const int result = acl->aclrtRecordEvent(event, state.stream);
    if (result != code::success) {
        free_events.push_back(event);
        checked("aclrtRecordEvent", result, which);
    }
    state.marks.push_back({state.issued, event});
}

void Device::State::advance(Lane which, uint64_t number) {
    std::atomic<uint64_t>& reached_number = done[index_of(which)];
    if (number > reached_number.load(std::memory_order_relaxed))
        reached_number.store(number, std::memory_order_release);
}

void Device::State::poll(Lane which) {
    LaneState& state = lane[index_of(which)];
    while (!state.marks.empty()) {
        const Mark mark = state.marks.front();
        if (mark.number > done[index_of(which)].load(std::memory_order_relaxed)) {
            int status = 0;
            checked("aclrtQueryEventStatus", acl->aclrtQueryEventStatus(mark.event, &status), which);
            if (status != event_complete) return;
            advance(which, mark.number);
        }
        free_events.push_back(mark.event);
        state.marks.pop_front();
    }
}

Uses Device::State::done_now() const {
    Uses now;
    for (size_t k = 0; k < lanes; ++k) now[k] = done[k].load(std::memory_order_acquire);
    return now;
}

void Device::State::order(Lane later, Ticket earlier) {
    if (later == earlier.lane || earlier.number <= lane[index_of(earlier.lane)].verified) return;
    uint64_t& needed = lane[index_of(later)].needed[index_of(earlier.lane)];
    needed = std::max(needed, earlier.number);
    if (reached(earlier)) return;
    uint64_t& after = lane[index_of(later)].after[index_of(earlier.lane)];
    if (earlier.number <= after) return;
    LaneState& before = lane[index_of(earlier.lane)];
    const auto at = [&] {
        return std::lower_bound(before.marks.begin(), before.marks.end(), earlier.number,
                                [](const Mark& mark, uint64_t number) { return mark.number < number; });
    };
    if (before.marks.empty() || before.marks.back().number < earlier.number) record(earlier.lane);
    // The wait is for what the event holds now: it may be recorded again as soon as it is reached.
    const Mark mark = *at();
    checked("aclrtStreamWaitEvent", acl->aclrtStreamWaitEvent(lane[index_of(later)].stream, mark.event),
            later);
    after = mark.number;
}

void Device::State::rethrow() const {
    const std::lock_guard<std::mutex> lock(failure_mutex);
    if (failure) throw Failure(*failure);  // null: `recover` came between
}

void Device::State::keep_failure(Failure found) {
    const std::lock_guard<std::mutex> lock(failure_mutex);
    found.device = number;
    failure = std::move(found);
    failed.store(true, std::memory_order_release);
    throw Failure(*failure);
}

void Device::State::checked(const char* call, int code, std::optional<Lane> which) {
    if (__builtin_expect(code == code::success, 1)) return;
    if (of_work(code)) fail_work(call, code, which);
    fail(call, code);
}

void Device::State::fail_work(const char* call, int code, std::optional<Lane> which) {
    if (failed.load(std::memory_order_relaxed)) rethrow();
    Failure found{call, code, "", loses_device(code), {}, which};
    if (const char* message = acl->aclGetRecentErrMsg()) found.message = message;

    std::vector<Launched> meant;
    const auto collect = [&](Lane from, auto accept) {
        const LaneState& state = lane[index_of(from)];
        for (const Launched& launch : state.launches)
            if (launch.number > state.verified && accept(launch)) meant.push_back(launch);
    };
    // The launch that the device itself names, else all of the lane that may be meant, else of both.
    for (const DeviceException& exception : take_exceptions(number)) {
        for (const Lane from : compute_lanes)
            if (lane[index_of(from)].id == static_cast<int32_t>(exception.stream))
                collect(from, [&](const Launched& launch) { return launch.task == exception.task; });
        // Ids of tasks come round again: the latest launch of that id is the one.
        if (!meant.empty()) {
            meant = {*std::max_element(meant.begin(), meant.end(),
                                       [](const auto& a, const auto& b) { return a.sequence < b.sequence; })};
            break;
        }
    }
    // What is copied back was made well; what was to be computed from what is copied here was not.
    if (meant.empty() && which != Lane::download) {
        const auto any = [](const Launched&) { return true; };
        for (const Lane from : compute_lanes)
            if (!which || *which == from || is_copying(*which)) collect(from, any);
    }
    std::sort(meant.begin(), meant.end(),
              [](const Launched& a, const Launched& b) { return a.sequence < b.sequence; });
    for (const Launched& launch : meant) found.launches.emplace_back(launch.run, launch.label);
    keep_failure(std::move(found));
}

void Device::State::take_reported() {
    if (__builtin_expect(!pending_exceptions(), 1)) return;
    // Those of other libraries' streams are theirs.
    std::vector<DeviceException> all = take_exceptions(number);
    for (const DeviceException& exception : all)
        for (const Lane which : all_lanes) {
            const LaneState& state = lane[index_of(which)];
            if (state.id != static_cast<int32_t>(exception.stream)) continue;
            if (is_copying(which)) fail_work("aclrtMemcpyAsync", exception.code, which);
            const auto is_it = [&](const Launched& launch) {
                return launch.number > state.verified && launch.task == exception.task;
            };
            const Launched* named = nullptr;
            for (const Launched& launch : state.launches)
                if (is_it(launch) && (!named || launch.sequence > named->sequence)) named = &launch;
            if (!named && state.stream != state.own) continue;
            Failure found{"launch", exception.code, "", loses_device(exception.code), {}, which};
            if (const char* message = acl->aclGetRecentErrMsg()) found.message = message;
            if (named) found.launches.emplace_back(named->run, named->label);
            keep_failure(std::move(found));
        }
}

Uses Device::State::below(Ticket ticket) const {
    Uses found{};
    found[index_of(ticket.lane)] = ticket.number;
    for (size_t turn = 1; turn < lanes; ++turn)
        for (size_t k = 0; k < lanes; ++k)
            for (size_t other = 0; found[k] && other < lanes; ++other)
                found[other] = std::max(found[other], lane[k].needed[other]);
    return found;
}

bool Device::State::verified(Ticket ticket) const {
    return reached(ticket) && ticket.number <= lane[index_of(ticket.lane)].verified && !pending_exceptions();
}

bool Device::State::verify(Ticket ticket) {
    take_reported();
    const Uses needed = below(ticket);
    Uses known = needed;
    for (const Lane which : all_lanes) {
        LaneState& state = lane[index_of(which)];
        known[index_of(which)] = state.verified;
        if (needed[index_of(which)] <= state.verified) continue;
        poll(which);
        const uint64_t issued = state.issued;
        if (!reached({which, issued})) {
            if (acl->watched && state.id >= 0) continue;
            return false;
        }
        const int result = acl->aclrtSynchronizeStreamWithTimeout(state.stream, 1);
        if (timed_out(result)) {
            drop_message(*acl);  // or the next failure would have it
            return false;
        }
        checked("aclrtSynchronizeStreamWithTimeout", result, which);
        known[index_of(which)] = issued;
    }
    // Only now: what one lane did went well only if what it builds on did.
    take_reported();
    for (size_t k = 0; k < lanes; ++k) lane[k].verified = known[k];
    return true;
}

bool Device::State::synchronize(Lane which, int milliseconds) {
    const std::shared_lock<std::shared_mutex> alive(streams);
    uint64_t issued = 0;
    void* stream = nullptr;
    {
        const std::lock_guard<std::mutex> lock(mutex);
        enter_check();  // again: it may have been closed since
        throw_if_failed();
        take_reported();
        issued = lane[index_of(which)].issued;
        stream = lane[index_of(which)].stream;
    }
    const Entered entered(*acl, context);
    const int result = acl->aclrtSynchronizeStreamWithTimeout(stream, std::max(milliseconds, 1));
    if (timed_out(result)) {
        drop_message(*acl);
        return false;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    throw_if_failed();
    checked("aclrtSynchronizeStreamWithTimeout", result, which);
    advance(which, issued);
    poll(which);
    return true;
}

bool Device::State::wait_event(void* event, int milliseconds) {
    const auto ready = [&] {
        const std::lock_guard<std::mutex> lock(mutex);
        throw_if_failed();
        int status = 0;
        checked("aclrtQueryEventStatus", acl->aclrtQueryEventStatus(event, &status));
        return status == event_complete;
    };
    return wait_until(ready, Clock::now() + std::chrono::milliseconds(milliseconds));
}

void Device::order(Lane later, Ticket earlier) {
    State& s = *state_;
    if (later == earlier.lane || !earlier.number) return;
    s.enter_check();
    s.throw_if_failed();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (earlier.number <= s.lane[index_of(earlier.lane)].verified) return;
    const Entered entered(*s.acl, s.context);
    s.order(later, earlier);
}

void Device::mark(Ticket ticket) {
    State& s = *state_;
    if (s.reached(ticket)) return;
    s.enter_check();
    s.throw_if_failed();
    const std::lock_guard<std::mutex> lock(s.mutex);
    const LaneState& state = s.lane[index_of(ticket.lane)];
    if (!state.marks.empty() && state.marks.back().number >= ticket.number) return;
    const Entered entered(*s.acl, s.context);
    s.record(ticket.lane);
}

Ticket Device::latest(Lane lane) {
    State& s = *state_;
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    // A piece of work of its own, with nothing in it: an event recorded for it is behind everything before.
    return s.issue(lane);
}

bool Device::done(Ticket ticket) {
    State& s = *state_;
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.verified(ticket)) return true;
    s.throw_if_failed();
    const Entered entered(*s.acl, s.context);
    if (!s.reached(ticket)) {
        const LaneState& state = s.lane[index_of(ticket.lane)];
        if (state.marks.empty() || state.marks.back().number < ticket.number) s.record(ticket.lane);
        s.poll(ticket.lane);
    }
    return s.reached(ticket) && s.verify(ticket);
}

bool Device::wait(Ticket ticket, int milliseconds) {
    if (done(ticket)) return true;
    State& s = *state_;
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    if (wait_until([&] { return done(ticket); }, end)) return true;
    // What failed or ran for too long may only come out when its stream is synchronised.
    for (const Lane which : all_lanes) s.synchronize(which, 1);
    return done(ticket);
}

bool Device::wait_all(int milliseconds) {
    State& s = *state_;
    s.enter_check();
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    Uses issued;
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        for (size_t k = 0; k < lanes; ++k) issued[k] = s.lane[k].issued;
    }
    for (const Lane which : all_lanes) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        if (!s.synchronize(which, static_cast<int>(std::max<int64_t>(left, 1)))) return false;
    }
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.take_reported();
    for (size_t k = 0; k < lanes; ++k) s.lane[k].verified = std::max(s.lane[k].verified, issued[k]);
    return true;
}

}  // namespace pyasc::npu
