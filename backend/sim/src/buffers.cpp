// The memory that a pipe object hands out, and queues of it.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ascendc/types.hpp"
#include "engine.hpp"

namespace sim {

namespace {

bool of_this_core(const Core& core, Space space) {
    return (space == Space::UB) == (core.kind == CoreKind::Vector);
}

// Whether to pass over what is for the other kind of core.
bool passes_over(const Core& core, Space space, const char* name, Where where, uint8_t position) {
    if (of_this_core(core, space)) return false;
    if (core.launch->kind != Launch::Kind::Mixed)
        core.fail(
            Kind::Position, where, name,
            format("Expected a position of a %s core, given %s.",
                   core.kind == CoreKind::Cube ? "cube" : "vector", name_of_position(position).c_str()));
    return true;
}

}  // namespace

BufferRange allocate_at(uint8_t position, Space space, uint8_t count, uint32_t address, uint32_t bytes,
                        Where where) {
    Core& core = *current;
    const BufferRange range{static_cast<int32_t>(core.buffers.size()), count};
    bytes = (bytes + 31U) & ~31U;
    const bool absent = passes_over(core, space, "InitBuffer", where, position);
    const uint32_t capacity = core.launch->capacities.bytes[static_cast<size_t>(space)];
    if (!absent && uint64_t{address} + uint64_t{count} * bytes > capacity)
        core.fail(
            Kind::Capacity, where, "InitBuffer",
            format("%s: Expected buffers within the %u bytes of %s, given %u of %u bytes after %u that are "
                   "taken.",
                   name_of_position(position).c_str(), capacity, name_of(space), count, bytes, address));
    for (uint8_t i = 0; i < count; ++i) {
        Buffer buffer;
        buffer.space = space;
        buffer.position = position;
        buffer.offset = address + i * bytes;
        buffer.bytes = bytes;
        core.buffers.push_back(buffer);
    }
    return range;
}

BufferRange allocate(void*, uint8_t position, Space space, uint8_t count, uint32_t bytes, Where where) {
    Core& core = *current;
    uint32_t& top = core.top[static_cast<size_t>(space)];
    if (bytes == 0 || count == 0)
        core.fail(Kind::Argument, where, "InitBuffer",
                  format("Expected at least one buffer of at least one byte, given %u of %u.", count, bytes));
    const BufferRange range = allocate_at(position, space, count, top, bytes, where);
    top += count * ((bytes + 31U) & ~31U);
    return range;
}

Local buffer_tensor(int32_t number, uint64_t offset, uint64_t bytes, Dtype dtype, Where where) {
    const Core& core = *current;
    if (number < 0)
        core.fail(Kind::Queue, where, "Get", "Expected a buffer with memory, given one without InitBuffer.");
    const Buffer& buffer = core.buffers[static_cast<size_t>(number)];
    if (offset + bytes > buffer.bytes && of_this_core(core, buffer.space))
        core.fail(
            Kind::Bounds, where, "Get",
            format("Expected a tensor within the buffer's %u bytes, given bytes %llu to %llu.", buffer.bytes,
                   static_cast<unsigned long long>(offset), static_cast<unsigned long long>(offset + bytes)));
    return {buffer.space,
            buffer.position,
            dtype,
            buffer.offset + static_cast<uint32_t>(offset),
            static_cast<uint32_t>(bytes),
            number};
}

uint32_t buffer_bytes(int32_t buffer) {
    return buffer < 0 ? 0 : current->buffers[static_cast<size_t>(buffer)].bytes;
}
uint32_t buffer_address(int32_t buffer) {
    return buffer < 0 ? 0 : current->buffers[static_cast<size_t>(buffer)].offset;
}
uint32_t allocated(Space space) { return current->top[static_cast<size_t>(space)]; }
uint32_t capacity(Space space) { return current->launch->capacities.bytes[static_cast<size_t>(space)]; }

namespace {

// The buffer ends: what its queue holds must be nothing.
void end(Core& core, Buffer& buffer, Where where) {
    if (!buffer.alive) return;
    if (core.check && buffer.queued && of_this_core(core, buffer.space) &&
        buffer.state != Buffer::State::Free) {
        const bool waits = buffer.state == Buffer::State::Waiting;
        core.fail(
            Kind::Queue, buffer.where, waits ? "EnQue" : "AllocTensor",
            format(
                "Expected every tensor of the queue in %s to be %s, given one that is not when the memory is "
                "taken back.",
                name_of_position(buffer.position).c_str(),
                waits ? "taken out with DeQue" : "given back with FreeTensor"));
    }
    // A tensor that was given back left its flag for the next who takes it: nobody does.
    if (buffer.free_event >= 0) {
        wait_flag(buffer.free_from, buffer.free_to, buffer.free_event, where);
        release_event(buffer.free_from, buffer.free_to, buffer.free_event, where);
        buffer.free_event = -1;
    }
    buffer.alive = false;
}

}  // namespace

void release(bool barrier, Where where) {
    Core& core = *current;
    for (Buffer& buffer : core.buffers) end(core, buffer, where);
    core.top.fill(0);
    if (barrier) pipe_barrier(Pipe::ALL, where);
}

void release_between(Space space, uint32_t start, uint32_t stop, Where where) {
    Core& core = *current;
    for (Buffer& buffer : core.buffers)
        if (buffer.queued && buffer.space == space && buffer.offset >= start && buffer.offset < stop)
            end(core, buffer, where);
}

void pipe_begins(void* pipe) { current->pipe = pipe; }
void pipe_ends(void* pipe) {
    if (current->pipe == pipe) current->pipe = nullptr;
}
void* current_pipe() { return current->pipe; }

namespace {

template <typename T>
T value_at(const uint8_t* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

std::string text_of(const uint8_t* bytes, Dtype dtype) {
    switch (dtype) {
        case Dtype::F16:
            return format("%g", static_cast<double>(value_at<half>(bytes)));
        case Dtype::BF16:
            return format("%g", static_cast<double>(value_at<bfloat16_t>(bytes)));
        case Dtype::F32:
            return format("%g", static_cast<double>(value_at<float>(bytes)));
        case Dtype::F64:
            return format("%g", value_at<double>(bytes));
        case Dtype::I8:
        case Dtype::I4:
            return format("%d", value_at<int8_t>(bytes));
        case Dtype::U8:
            return format("%u", value_at<uint8_t>(bytes));
        case Dtype::I16:
            return format("%d", value_at<int16_t>(bytes));
        case Dtype::U16:
            return format("%u", value_at<uint16_t>(bytes));
        case Dtype::I32:
            return format("%d", value_at<int32_t>(bytes));
        case Dtype::U32:
            return format("%u", value_at<uint32_t>(bytes));
        case Dtype::I64:
            return format("%lld", static_cast<long long>(value_at<int64_t>(bytes)));
        default:
            return format("%llu", static_cast<unsigned long long>(value_at<uint64_t>(bytes)));
    }
}

}  // namespace

// --- Queues
// -------------------------------------------------------------------------------------------------

namespace {

Buffer& buffer_of(Core& core, const Local& tensor, const BufferRange& range, const char* name, Where where) {
    if (tensor.buffer < range.first || tensor.buffer >= range.first + range.count)
        core.fail(Kind::Queue, where, name,
                  tensor.buffer < 0
                      ? std::string("Expected a tensor that AllocTensor of this queue gave, given one "
                                    "of no queue.")
                      : std::string("Expected a tensor that AllocTensor of this queue gave, given one "
                                    "of another."));
    return core.buffers[static_cast<size_t>(tensor.buffer)];
}

}  // namespace

void Queue::own(BufferRange buffers) {
    buffers_ = buffers;
    waiting_.clear();
    next_ = 0;
    for (int32_t i = 0; i < buffers.count; ++i)
        current->buffers[static_cast<size_t>(buffers.first + i)].queued = true;
}

Local Queue::take(Dtype dtype, Where where) {
    Core& core = *current;
    if (buffers_.count == 0)
        core.fail(Kind::Queue, where, "AllocTensor",
                  "Expected a queue with memory, given one without InitBuffer.");
    for (int32_t i = 0; i < buffers_.count; ++i) {
        const int32_t number = buffers_.first + (next_ + i) % buffers_.count;
        Buffer& buffer = core.buffers[static_cast<size_t>(number)];
        if (buffer.state != Buffer::State::Free) continue;
        buffer.state = Buffer::State::Taken;
        buffer.where = where;
        next_ = (number - buffers_.first + 1) % buffers_.count;
        if (buffer.free_event >= 0) {
            wait_flag(buffer.free_from, buffer.free_to, buffer.free_event, where);
            release_event(buffer.free_from, buffer.free_to, buffer.free_event, where);
            buffer.free_event = -1;
        }
        return {space_, position_, dtype, buffer.offset, buffer.bytes, number};
    }
    core.fail(
        Kind::Queue, where, "AllocTensor",
        format(
            "Expected one of the %u buffers of the queue in %s to be free, given all in use: a FreeTensor is "
            "missing, or more buffers are needed.",
            buffers_.count, name_of_position(position_).c_str()));
}

void Queue::put(const Local& tensor, Where where) { put(tensor, from_, to_, where); }

void Queue::put(const Local& tensor, Pipe from, Pipe to, Where where) {
    Core& core = *current;
    Buffer& buffer = buffer_of(core, tensor, buffers_, "EnQue", where);
    if (buffer.state == Buffer::State::Waiting)
        core.fail(Kind::Queue, where, "EnQue",
                  "Expected a tensor that is not in the queue, given one that is.");
    if (buffer.state == Buffer::State::Free)
        core.fail(Kind::Queue, where, "EnQue",
                  "Expected a tensor from AllocTensor, given one that was given back with FreeTensor.");
    if (!vacant() && core.check)
        core.fail(Kind::Queue, where, "EnQue",
                  format("Expected at most %d tensors in the queue in %s, its depth, given one more.",
                         depth_ > 0 ? depth_ : 1, name_of_position(position_).c_str()));
    buffer.state = Buffer::State::Waiting;
    buffer.where = where;
    if (from != Pipe::ALL && from != to) {
        buffer.queue_event = free_event(from, to, true, where);
        set_flag(from, to, buffer.queue_event, where);
    }
    waiting_.push_back(tensor.buffer);
}

Local Queue::get(Dtype dtype, Where where) { return get(dtype, from_, to_, where); }

Local Queue::get(Dtype dtype, Pipe from, Pipe to, Where where) {
    Core& core = *current;
    if (waiting_.empty())
        core.fail(Kind::Queue, where, "DeQue",
                  format("Expected a tensor in the queue in %s, given none: an EnQue is missing.",
                         name_of_position(position_).c_str()));
    const int32_t number = waiting_.front();
    waiting_.pop_front();
    Buffer& buffer = core.buffers[static_cast<size_t>(number)];
    buffer.state = Buffer::State::Got;
    buffer.where = where;
    if (buffer.queue_event >= 0) {
        wait_flag(from, to, buffer.queue_event, where);
        release_event(from, to, buffer.queue_event, where);
        buffer.queue_event = -1;
    }
    return {space_, position_, dtype, buffer.offset, buffer.bytes, number};
}

void Queue::give_back(const Local& tensor, Where where) {
    Core& core = *current;
    Buffer& buffer = buffer_of(core, tensor, buffers_, "FreeTensor", where);
    if (buffer.state == Buffer::State::Free)
        core.fail(Kind::Queue, where, "FreeTensor",
                  "Expected a tensor in use, given one that was given back already.");
    if (buffer.state == Buffer::State::Waiting && core.check)
        core.fail(Kind::Queue, where, "FreeTensor",
                  "Expected a tensor that is not in the queue, given one that is.");
    buffer.state = Buffer::State::Free;
    if (from_ != Pipe::ALL && from_ != to_) {
        buffer.free_from = to_;
        buffer.free_to = from_;
        buffer.free_event = free_event(to_, from_, true, where);
        set_flag(to_, from_, buffer.free_event, where);
    }
}

bool Queue::idle() const {
    for (int32_t i = 0; i < buffers_.count; ++i)
        if (current->buffers[static_cast<size_t>(buffers_.first + i)].state == Buffer::State::Free)
            return true;
    return false;
}

bool Queue::vacant() const { return static_cast<int32_t>(waiting_.size()) < (depth_ > 0 ? depth_ : 1); }

int64_t cycle() {
    const Core& core = *current;
    int64_t sum = 0;
    for (const uint32_t count : core.count) sum += count;
    return sum;
}

namespace {

void dump(const uint8_t* bytes, Dtype dtype, uint32_t tag, uint32_t count) {
    std::printf("tensor %u:", tag);
    for (uint32_t i = 0; i < count; ++i)
        std::printf(" %s", text_of(bytes + size_t{i} * size_of(dtype), dtype).c_str());
    std::printf("\n");
}

}  // namespace

void dump(const Local& tensor, uint32_t tag, uint32_t count, Where) {
    const uint32_t there = tensor.bytes / size_of(tensor.dtype);
    if (current->move && of_this_core(*current, tensor.space))
        dump(data(tensor), tensor.dtype, tag, count < there ? count : there);
}

void dump(const Global& tensor, uint32_t tag, uint32_t count, Where) {
    const GlobalBuffer* buffer = current->find(tensor.address);
    if (!current->move || !buffer) return;
    const uint64_t there =
        static_cast<uint64_t>(buffer->address + buffer->bytes - tensor.address) / size_of(tensor.dtype);
    dump(tensor.address, tensor.dtype, tag, count < there ? count : static_cast<uint32_t>(there));
}

void print(const char* text, ...) {
    if (!current->move) return;
    va_list arguments;
    va_start(arguments, text);
    std::vprintf(text, arguments);
    va_end(arguments);
}

}  // namespace sim
