// Streams, each on a thread of its own.
#include <algorithm>
#include <cstring>

#include "standin.hpp"

namespace standin {

namespace {

constexpr size_t lazily = 64;  // tasks that a stream may have before it is woken, where kernels do nothing

thread_local uint32_t last_task = 0;

Time duration(const Task& task) {
    const Settings& settings = machine().settings;
    switch (task.kind) {
        case Task::Kind::Copy:
        case Task::Kind::Set: {
            const double rate = task.within ? settings.bytes_per_us * 32 : settings.bytes_per_us;
            return static_cast<Time>((5 + static_cast<double>(task.bytes) / rate) * 1000);
        }
        case Task::Kind::Kernel:
            return static_cast<Time>(settings.kernel_us * 1000);
        default:
            return 0;
    }
}

const char* kind_of(const Task& task) {
    switch (task.kind) {
        case Task::Kind::Copy:
            return task.within          ? "copy"
                   : of_device(task.to) ? (of_device(task.from) ? "across" : "upload")
                                        : "download";
        case Task::Kind::Set:
            return "set";
        case Task::Kind::Kernel:
            return "kernel";
        case Task::Kind::Record:
            return "record";
        case Task::Kind::Wait:
            return "wait";
        case Task::Kind::Call:
            return "call";
    }
    return "";
}

std::pair<aclError, std::string> copy(Lock& lock, Stream& stream, const Task& task) {
    if (aclError code = fault("copy"))
        return {code, text("a copy of %zu bytes: %d was injected", task.bytes, code)};
    for (const void* address : {static_cast<const void*>(task.to), static_cast<const void*>(task.from)}) {
        if (!address) continue;
        auto* memory = find(address);
        if (!memory) {
            complain(text("a copy in stream %u touches %p, which was freed", stream.id, address));
            return {copy_failed, text("a copy of %zu bytes: %p is in no memory", task.bytes, address)};
        }
        const uint64_t from = reinterpret_cast<uintptr_t>(address) - memory->first;
        touch(*memory, stream, task, from, from + task.bytes, address == task.to,
              task.from ? "a copy" : "a memset");
    }
    uint8_t* const to = real(task.to);
    const uint8_t* const from = task.from ? real(task.from) : nullptr;
    lock.unlock();
    if (from)
        std::memmove(to, from, task.bytes);
    else
        std::memset(to, task.value, task.bytes);
    lock.lock();
    return {success, ""};
}

bool dropped(const Stream& stream) { return stream.aborting || stream.context->error; }

std::pair<aclError, std::string> perform(Lock& lock, Stream& stream, Task& task) {
    switch (task.kind) {
        case Task::Kind::Copy:
        case Task::Kind::Set:
            return copy(lock, stream, task);
        case Task::Kind::Kernel:
            return run(lock, stream, task);
        case Task::Kind::Record:
            return {success, ""};
        case Task::Kind::Wait: {
            if (Stream* other = stream_numbered(task.record->stream); other && !task.record->done)
                kick(*other);
            Machine& all = machine();
            ++all.watchers;
            all.progress.wait(lock, [&] { return task.record->done || dropped(stream); });
            --all.watchers;
            return {success, ""};
        }
        case Task::Kind::Call:
            lock.unlock();
            task.call(task.data);
            lock.lock();
            return {success, ""};
    }
    return {success, ""};
}

void failed(Lock& lock, Stream& stream, const Task& task, aclError code, const std::string& message) {
    Machine& all = machine();
    if (!stream.error) {
        stream.error = code;
        stream.message = message;
    }
    if (stream.context->stops && !stream.context->error) stream.context->error = code;
    if (auto callback = all.callback) {
        rtExceptionInfo info{task.id, stream.id, 0, number_of_driver(stream.device),
                             static_cast<uint32_t>(code)};
        lock.unlock();
        callback(&info);
        lock.lock();
    }
}

void finish(Stream& stream, Task& task, bool drop, Time begin, Time end) {
    Machine& all = machine();
    stream.now = end;
    if (task.event && task.kind == Task::Kind::Wait && all.events.count(task.event)) --task.event->waits;
    if (task.record && task.kind == Task::Kind::Record) {
        task.record->at = end;
        // What waits in other streams for a record that was dropped goes on waiting, as it would there.
        task.record->error =
            drop ? (stream.context->error ? stream.context->error : stream_aborted) : success;
        task.record->done = !drop;
    }
    if (task.function) ++task.function->library->through;
    if (all.keep_timeline && !drop)
        all.timeline.push_back(
            {stream.id, stream.device, kind_of(task), task.function ? task.function->name : "", begin, end});
    stream.done = task.number;
}

void work(Stream& stream) {
    Machine& all = machine();
    Lock lock(all.mutex);
    for (;;) {
        if (stream.queue.empty()) {
            if (stream.closing) return;
            stream.sleeping = true;
            stream.work.wait(lock, [&] { return !stream.sleeping; });
            stream.sleeping = false;
            continue;
        }
        Task task = std::move(stream.queue.front());
        stream.queue.pop_front();
        if (all.settings.delay_us && !dropped(stream)) {
            const auto delay = std::chrono::microseconds(stream.random() % (all.settings.delay_us + 1));
            lock.unlock();
            std::this_thread::sleep_for(delay);
            lock.lock();
        }
        Time begin = all.settings.model_time ? std::max(stream.now, task.earliest) : clock_now();
        const bool drop = dropped(stream);
        if (!drop) {
            const auto [code, message] = perform(lock, stream, task);
            if (code) failed(lock, stream, task, code, message);
        }
        if (task.kind == Task::Kind::Wait && all.settings.model_time && task.record->done)
            begin = std::max(begin, task.record->at);
        const bool over = drop || (stream.aborting && task.kind == Task::Kind::Wait && !task.record->done);
        finish(stream, task, over, begin,
               all.settings.model_time ? begin + (drop ? 0 : duration(task)) : clock_now());
        if (all.watchers) all.progress.notify_all();
    }
}

}  // namespace

void merge(Clock& into, const Clock& from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool covers(const Clock& clock, uint32_t stream, uint64_t number) {
    return stream < clock.size() && clock[stream] >= number;
}

static void advance(Clock& clock, uint32_t stream, uint64_t number) {
    if (clock.size() <= stream) clock.resize(stream + 1);
    clock[stream] = std::max(clock[stream], number);
}

void observe(const Clock& clock, Time at) {
    merge(machine().observed, clock);
    machine().host = std::max(machine().host, at);
}

Stream* make_stream(Context& context, aclError& error) {
    Machine& all = machine();
    if (all.streams.size() >= all.settings.streams) {
        error = fail(no_stream_left, text("all %u streams are in use", all.settings.streams));
        return nullptr;
    }
    auto stream = std::make_unique<Stream>();
    if (all.free_streams.empty()) {
        stream->id = static_cast<uint32_t>(all.last_of_streams.size());
        all.last_of_streams.push_back(0);
    } else {
        stream->id = all.free_streams.back();
        all.free_streams.pop_back();
    }
    stream->submitted = stream->done = all.last_of_streams[stream->id];
    stream->context = &context;
    stream->device = context.device;
    stream->random.seed(all.settings.seed + stream->id);
    Stream* const made = stream.release();
    all.streams.insert(made);
    made->thread = std::thread([made] { work(*made); });
    return made;
}

void destroy_stream(Lock& lock, Stream* stream, bool drop) {
    Machine& all = machine();
    const std::unique_ptr<Stream> owned(stream);
    if (drop) abort_stream(lock, *stream);
    if (stream->done != stream->submitted) {
        complain(text("stream %u was destroyed before its work was waited for", stream->id));
        wait_for(lock, *stream, -1);
    }
    all.streams.erase(stream);
    advance(all.observed, stream->id, stream->submitted);
    stream->closing = true;
    kick(*stream);
    lock.unlock();
    stream->thread.join();
    lock.lock();
    all.last_of_streams[stream->id] = stream->submitted;
    all.free_streams.push_back(stream->id);
}

Stream* stream_of(aclrtStream handle, aclError& error) {
    Machine& all = machine();
    if (!current || !all.contexts.count(current)) {
        error = misuse(no_context, "this thread has no context");
        return nullptr;
    }
    if (!handle) return current->stream;
    if (!all.streams.count(handle)) {
        error = misuse(foreign_stream, text("there is no stream %p", handle));
        return nullptr;
    }
    auto* stream = static_cast<Stream*>(handle);
    if (stream->context != current) {
        error = misuse(foreign_stream, text("stream %u is not of the current context", stream->id));
        return nullptr;
    }
    return stream;
}

Stream* stream_numbered(uint32_t id) {
    for (void* handle : machine().streams)
        if (static_cast<Stream*>(handle)->id == id) return static_cast<Stream*>(handle);
    return nullptr;
}

void kick(Stream& stream) {
    if (!stream.sleeping) return;
    stream.sleeping = false;
    stream.work.notify_one();
}

aclError submit(Stream& stream, Task&& task) {
    Machine& all = machine();
    if (stream.context->error)
        return fail(stream.context->error, text("stream %u stopped: a task failed", stream.id));
    if (stream.aborting) return fail(stream_aborted, text("stream %u is being aborted", stream.id));
    task.number = ++stream.submitted;
    task.id = last_task = static_cast<uint32_t>(task.number);
    task.earliest = all.host;
    merge(stream.clock, all.observed);
    advance(stream.clock, stream.id, task.number);
    if (task.kind == Task::Kind::Wait) merge(stream.clock, task.record->clock);
    task.clock = stream.clock;
    if (task.kind == Task::Kind::Record) {
        task.record->clock = task.clock;
        task.record->stream = stream.id;
        task.record->number = task.number;
    }
    hold_all(task, stream.id);
    stream.queue.push_back(std::move(task));
    if (!all.settings.null_kernels || stream.queue.size() >= lazily) kick(stream);
    return success;
}

aclError taken_error(Stream& stream) {
    if (stream.context->error) return fail(stream.context->error, stream.message);
    if (!stream.error) return success;
    const aclError error = fail(stream.error, stream.message);
    stream.error = success;
    stream.message.clear();
    return error;
}

aclError wait_for(Lock& lock, Stream& stream, int32_t milliseconds) {
    const uint64_t target = stream.submitted;
    const uint32_t aborts = stream.aborts, id = stream.id;
    const Clock clock = stream.clock;
    kick(stream);
    Machine& all = machine();
    const auto gone = [&] { return stream_numbered(id) != &stream; };
    const bool ready = wait_until(lock, milliseconds,
                                  [&] { return gone() || stream.done >= target || stream.aborts != aborts; });
    if (ready && gone()) return fail(foreign_stream, text("stream %u was destroyed", id));
    if (stream.aborts != aborts) return fail(stream_aborted, text("stream %u was aborted", id));
    if (!ready) return fail(stream_timeout, text("stream %u did not end within %d ms", id, milliseconds));
    if (!stream.context->error) merge(all.observed, clock);
    all.host = std::max(all.host, stream.now);
    return taken_error(stream);
}

void abort_stream(Lock& lock, Stream& stream) {
    Machine& all = machine();
    ++stream.aborts;
    stream.aborting = true;
    if (stream.running) stop(*stream.running);
    kick(stream);
    all.progress.notify_all();
    const uint64_t target = stream.submitted;
    wait_until(lock, -1, [&] { return stream.done >= target; });
    stream.aborting = false;
    stream.error = success;
    stream.message.clear();
    advance(all.observed, stream.id, stream.submitted);
}

}  // namespace standin

using namespace standin;

ACL_EXPORT aclError aclrtCreateStream(aclrtStream* made) {
    Call call("aclrtCreateStream");
    if (call.error) return call.error;
    if (!current || !machine().contexts.count(current))
        return misuse(no_context, "aclrtCreateStream without a context");
    aclError error = success;
    *made = make_stream(*current, error);
    return error;
}

ACL_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream* made, uint32_t, uint32_t) {
    return aclrtCreateStream(made);
}

ACL_EXPORT aclError aclrtDestroyStream(aclrtStream handle) {
    Call call("aclrtDestroyStream");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    if (stream == current->stream)
        return misuse(foreign_stream, "aclrtDestroyStream of a context's own stream");
    destroy_stream(call.lock, stream, false);
    return success;
}

ACL_EXPORT aclError aclrtDestroyStreamForce(aclrtStream handle) {
    Call call("aclrtDestroyStreamForce");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    destroy_stream(call.lock, stream, true);
    return success;
}

ACL_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
    Call call("aclrtSetStreamFailureMode");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    if (mode == stop_on_failure) stream->context->stops = true;
    return success;
}

ACL_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t milliseconds) {
    Call call("aclrtSynchronizeStreamWithTimeout");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    return error ? error : wait_for(call.lock, *stream, milliseconds);
}

ACL_EXPORT aclError aclrtSynchronizeStream(aclrtStream handle) {
    Call call("aclrtSynchronizeStream");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    return error ? error : wait_for(call.lock, *stream, -1);
}

ACL_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) {
    Call call("aclrtSynchronizeDeviceWithTimeout");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtSynchronizeDevice without a context");
    std::vector<uint32_t> ids;
    for (void* handle : machine().streams)
        if (static_cast<Stream*>(handle)->device == current->device)
            ids.push_back(static_cast<Stream*>(handle)->id);
    aclError first = success;
    for (uint32_t id : ids)
        if (Stream* stream = stream_numbered(id)) {
            const aclError error = wait_for(call.lock, *stream, milliseconds);
            if (!first) first = error;
        }
    return first;
}

ACL_EXPORT aclError aclrtSynchronizeDevice(void) { return aclrtSynchronizeDeviceWithTimeout(-1); }

ACL_EXPORT aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
    Call call("aclrtStreamQuery");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    kick(*stream);
    *status = stream->done == stream->submitted ? stream_complete : stream_not_ready;
    if (*status == stream_complete && !stream->context->error) observe(stream->clock, stream->now);
    return success;
}

ACL_EXPORT aclError aclrtStreamAbort(aclrtStream handle) {
    Call call("aclrtStreamAbort");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    abort_stream(call.lock, *stream);
    return success;
}

ACL_EXPORT aclError aclrtDeviceTaskAbort(int32_t device, uint32_t) {
    Call call("aclrtDeviceTaskAbort");
    if (call.error) return call.error;
    std::vector<uint32_t> ids;
    for (void* handle : machine().streams)
        if (static_cast<Stream*>(handle)->device == device) ids.push_back(static_cast<Stream*>(handle)->id);
    for (uint32_t id : ids)
        if (Stream* stream = stream_numbered(id)) abort_stream(call.lock, *stream);
    return success;
}

ACL_EXPORT aclError aclrtStreamGetId(aclrtStream handle, int32_t* id) {
    Call call("aclrtStreamGetId");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (!error) *id = static_cast<int32_t>(stream->id);
    return error;
}

ACL_EXPORT aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
    Call call("aclrtCtxGetCurrentDefaultStream");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "this thread has no context");
    *stream = current->stream;
    return success;
}

ACL_EXPORT aclError aclrtGetStreamAvailableNum(uint32_t* count) {
    Call call("aclrtGetStreamAvailableNum");
    if (call.error) return call.error;
    *count = machine().settings.streams - static_cast<uint32_t>(machine().streams.size());
    return success;
}

ACL_EXPORT aclError aclrtGetThreadLastTaskId(uint32_t* id) {
    *id = last_task;
    return success;
}

ACL_EXPORT aclError aclrtLaunchCallback(aclrtCallback function, void* data, int, aclrtStream handle) {
    Call call("aclrtLaunchCallback");
    if (call.error) return call.error;
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    Task task(Task::Kind::Call);
    task.call = function;
    task.data = data;
    return submit(*stream, std::move(task));
}
