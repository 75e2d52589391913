// Events: places in streams, which others wait for and which have times.
#include <algorithm>

#include "standin.hpp"

namespace standin {

Event* event_of(aclrtEvent handle, aclError& error) {
    if (machine().events.count(handle)) return static_cast<Event*>(handle);
    error = misuse(bad_argument, text("there is no event %p", handle));
    return nullptr;
}

void destroy_event(Event* event) {
    machine().events.erase(event);
    const std::unique_ptr<Event> owned(event);
}

}  // namespace standin

using namespace standin;

namespace {

aclError new_event(aclrtEvent* made, uint32_t flags, bool reusable) {
    Machine& all = machine();
    if (!current || !all.contexts.count(current)) return misuse(no_context, "an event without a context");
    if (all.events.size() >= all.settings.events)
        return fail(no_event_left, text("all %u events are in use", all.settings.events));
    auto event = std::make_unique<Event>();
    event->id = all.next_event++;
    event->flags = flags;
    event->device = current->device;
    event->reusable = reusable;
    *made = event.get();
    all.events.insert(event.release());
    return success;
}

aclError wait_for_event(Call& call, aclrtEvent handle, int32_t milliseconds) {
    aclError error = success;
    Event* event = event_of(handle, error);
    if (error) return error;
    const auto record = event->record;
    if (!record) return success;
    Stream* stream = stream_numbered(record->stream);
    if (stream) kick(*stream);
    const uint32_t aborts = stream ? stream->aborts : 0;
    const bool ready = wait_until(call.lock, milliseconds, [&] {
        const Stream* now = stream_numbered(record->stream);
        return record->done || record->error || !now || now->aborts != aborts;
    });
    stream = stream_numbered(record->stream);
    if (record->done) {
        observe(record->clock, record->at);
        return stream ? taken_error(*stream) : success;
    }
    if (record->error) return fail(record->error, "the event's work was dropped");
    if (!ready)
        return fail(event_timeout, text("event %u was not reached within %d ms", event->id, milliseconds));
    return fail(stream_aborted, "the event's stream was aborted or destroyed");
}

}  // namespace

ACL_EXPORT aclError aclrtCreateEvent(aclrtEvent* made) {
    Call call("aclrtCreateEvent");
    return call.error ? call.error : new_event(made, event_sync | event_time_line, true);
}

ACL_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent* made, uint32_t flags) {
    Call call("aclrtCreateEventWithFlag");
    return call.error ? call.error : new_event(made, flags, (flags & event_sync) == 0);
}

ACL_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent* made, uint32_t flags) {
    Call call("aclrtCreateEventExWithFlag");
    return call.error ? call.error : new_event(made, flags, true);
}

ACL_EXPORT aclError aclrtDestroyEvent(aclrtEvent handle) {
    Call call("aclrtDestroyEvent");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    if (error) return error;
    if (event->waits) complain(text("event %u was destroyed while a stream waits for it", event->id));
    destroy_event(event);
    return success;
}

ACL_EXPORT aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
    Call call("aclrtRecordEvent");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    Stream* stream = error ? nullptr : stream_of(stream_handle, error);
    if (error) return error;
    if (event->device != stream->device)
        return misuse(bad_argument, text("event %u is of another device", event->id));
    if (event->record && !event->reusable)
        complain(text("event %u was recorded again without aclrtResetEvent", event->id));
    auto record = std::make_shared<Record>();
    Task task(Task::Kind::Record);
    task.record = record;
    error = submit(*stream, std::move(task));
    if (!error) event->record = record;
    return error;
}

ACL_EXPORT aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
    Call call("aclrtResetEvent");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    if (!error) stream_of(stream_handle, error);
    if (error) return error;
    if (event->reusable) return misuse(bad_argument, text("event %u cannot be reset", event->id));
    event->record.reset();
    return success;
}

static aclError wait_in_stream(const char* name, aclrtStream stream_handle, aclrtEvent handle) {
    Call call(name);
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    Stream* stream = error ? nullptr : stream_of(stream_handle, error);
    if (error) return error;
    if (!(event->flags & event_sync))
        return misuse(bad_argument, text("event %u is not one that a stream can wait for", event->id));
    if (!event->record) {
        complain(text("%s: event %u was not recorded", name, event->id));
        return success;
    }
    Task task(Task::Kind::Wait);
    task.record = event->record;
    task.event = event;
    error = submit(*stream, std::move(task));
    if (!error) ++event->waits;
    return error;
}

ACL_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return wait_in_stream("aclrtStreamWaitEvent", stream, event);
}

ACL_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t) {
    return wait_in_stream("aclrtStreamWaitEventWithTimeout", stream, event);
}

ACL_EXPORT aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
    Call call("aclrtQueryEventStatus");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    if (error) return error;
    *status = record_complete;
    if (event->record) {
        if (!event->record->done) {
            *status = record_not_ready;
            if (Stream* stream = stream_numbered(event->record->stream)) kick(*stream);
        } else if (machine().settings.model_time && event->record->at > machine().host) {
            // On the modelled clock it is still to come. Who asks again and again waits for it, ever longer.
            *status = record_not_ready;
            machine().host = std::min(machine().host + event->record->step, event->record->at);
            event->record->step *= 2;
        } else {
            observe(event->record->clock, event->record->at);
        }
    }
    return success;
}

ACL_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus* status) {
    Call call("aclrtQueryEventWaitStatus");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    if (!error) *status = event->waits ? wait_not_ready : wait_complete;
    return error;
}

ACL_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) {
    Call call("aclrtSynchronizeEvent");
    return call.error ? call.error : wait_for_event(call, event, -1);
}

ACL_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t milliseconds) {
    Call call("aclrtSynchronizeEventWithTimeout");
    return call.error ? call.error : wait_for_event(call, event, milliseconds);
}

// The time of an event that is through and keeps times.
static aclError time_of(aclrtEvent handle, Time& at) {
    aclError error = success;
    Event* event = event_of(handle, error);
    if (error) return error;
    if (!(event->flags & event_time_line))
        return misuse(no_timestamp, text("event %u keeps no times", event->id));
    if (!event->record || !event->record->done)
        return misuse(no_timestamp, text("event %u was not reached yet", event->id));
    at = event->record->at;
    return success;
}

ACL_EXPORT aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent begin, aclrtEvent end) {
    Call call("aclrtEventElapsedTime");
    if (call.error) return call.error;
    Time from = 0, to = 0;
    if (aclError error = time_of(begin, from)) return error;
    if (aclError error = time_of(end, to)) return error;
    if (to < from) return misuse(107007, "aclrtEventElapsedTime: the events are in the wrong order");
    *milliseconds = static_cast<float>(to - from) / 1e6F;
    return success;
}

ACL_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* microseconds) {
    Call call("aclrtEventGetTimestamp");
    if (call.error) return call.error;
    Time at = 0;
    if (aclError error = time_of(event, at)) return error;
    *microseconds = static_cast<uint64_t>(at / 1000);
    return success;
}

ACL_EXPORT aclError aclrtGetEventId(aclrtEvent handle, uint32_t* id) {
    Call call("aclrtGetEventId");
    if (call.error) return call.error;
    aclError error = success;
    Event* event = event_of(handle, error);
    if (!error) *id = event->id;
    return error;
}

ACL_EXPORT aclError aclrtGetEventAvailNum(uint32_t* count) {
    Call call("aclrtGetEventAvailNum");
    if (call.error) return call.error;
    *count = machine().settings.events - static_cast<uint32_t>(machine().events.size());
    return success;
}
