// Instructions: what they touch, in what order, and their record in the log.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "engine.hpp"

namespace sim {

thread_local Core* current = nullptr;

namespace {

Core& core_here() {
    if (!current) {
        std::fputs("sim: an instruction outside of a launched kernel\n", stderr);
        std::abort();
    }
    return *current;
}

bool has(CoreKind kind, Space space) {
    if (space == Space::GM) return true;
    return (space == Space::UB) == (kind == CoreKind::Vector);
}

bool has(CoreKind kind, Pipe pipe) {
    switch (pipe) {
        case Pipe::V:
            return kind == CoreKind::Vector;
        case Pipe::M:
        case Pipe::MTE1:
        case Pipe::FIX:
            return kind == CoreKind::Cube;
        default:
            return true;
    }
}

const char* file_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

}  // namespace

std::string format(const char* text, va_list arguments) {
    va_list copy;
    va_copy(copy, arguments);
    const int size = std::vsnprintf(nullptr, 0, text, copy);
    va_end(copy);
    std::string result(static_cast<size_t>(size), '\0');
    std::vsnprintf(result.data(), result.size() + 1, text, arguments);
    return result;
}

std::string format(const char* text, ...) {
    va_list arguments;
    va_start(arguments, text);
    std::string result = format(text, arguments);
    va_end(arguments);
    return result;
}

const char* name_of(Space space) {
    static constexpr const char* names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return names[static_cast<int>(space)];
}

const char* name_of(Pipe pipe) {
    static constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return names[static_cast<int>(pipe)];
}

const char* name_of(Kind kind) {
    static constexpr const char* names[] = {"none",     "bounds",        "alignment", "capacity",
                                            "position", "uninitialised", "race",      "queue",
                                            "deadlock", "dtype",         "argument",  "stopped"};
    return names[static_cast<int>(kind)];
}

std::string name_of_position(uint8_t position) {
    static constexpr const char* names[] = {"GM",  "A1",   "A2",        "B1",          "B2",     "C1",
                                            "C2",  "CO1",  "CO2",       "VECIN",       "VECOUT", "VECCALC",
                                            "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
    return position < 16 ? names[position] : "no position";
}

std::string at(const Site& site) { return format("%s at %s:%d", site.name, file_name(site.file), site.line); }

namespace {
std::mutex names_mutex;
std::vector<std::string> names_table;
std::unordered_map<std::string, uint16_t> names_numbers;
}  // namespace

uint16_t global_name(const char* name) {
    const std::lock_guard lock(names_mutex);
    auto [it, added] = names_numbers.try_emplace(name, static_cast<uint16_t>(names_table.size()));
    if (added) names_table.emplace_back(name);
    return it->second;
}

std::vector<std::string> all_names() {
    const std::lock_guard lock(names_mutex);
    return names_table;
}

// --- A core
// -------------------------------------------------------------------------------------------------

std::string Core::name() const {
    return format("%s core %d of %d", kind == CoreKind::Cube ? "cube" : "vector", kind_index,
                  launch->cores_of(kind));
}

void Core::fail(Kind why, Where where, const char* instruction, const std::string& text) const {
    std::string message;
    if (instruction) message = format("[%s] ", instruction);
    message += text;
    message += format(" (%s", name().c_str());
    if (where.line) message += format(", %s:%d", file_name(where.file), where.line);
    message += ")";
    throw Stop{{why, index, where.line, std::move(message)}};
}

void Core::Touched::add(uint32_t low, uint32_t high, uint32_t clock, uint32_t over) {
    Entry& entry = entries[next++ % kept];
    if (entry.clock > over) {
        if (older.clock <= over)
            older = entry;
        else
            older = {std::min(older.low, entry.low), std::max(older.high, entry.high), entry.clock};
    }
    entry = {low, high, clock};
}

uint32_t Core::Touched::last(uint32_t low, uint32_t high) const {
    uint32_t clock = older.low < high && older.high > low ? older.clock : 0;
    for (const Entry& entry : entries)
        if (entry.low < high && entry.high > low) clock = std::max(clock, entry.clock);
    return clock;
}

void Log::grow() {
    room_ = room_ ? 2 * room_ : 1024;
    void* const larger = std::realloc(records_.get(), room_ * sizeof(Record));
    if (!larger) throw std::bad_alloc();
    static_cast<void>(records_.release());
    records_.reset(static_cast<Record*>(larger));
}

void Core::poll() const {
    if (launch->failed.load(std::memory_order_relaxed) < index)
        throw Stop{{Kind::Stopped, index, 0, "stopped"}};
}

uint16_t Core::name_number(const char* text) {
    auto& entry = names[(reinterpret_cast<uintptr_t>(text) >> 2) & 255U];
    if (entry.first != text) entry = {text, global_name(text)};
    return entry.second;
}

void Core::record(Event event, Pipe pipe, Pipe to, int32_t id, const char* text, Where where,
                  const Work& work) {
    if (!cost) return;
    Record made{event,
                static_cast<uint8_t>(pipe),
                static_cast<uint8_t>(to),
                static_cast<uint8_t>(id),
                name_number(text),
                static_cast<uint16_t>(std::min(where.line, 65535)),
                work};
    if (work.address) {
        // Where a buffer lies is the host's chance; on the device each begins with a line of L2.
        if (const GlobalBuffer* buffer = find(reinterpret_cast<const uint8_t*>(work.address))) {
            const auto number = static_cast<uint64_t>(buffer - launch->buffers.data()) + 1;
            made.work.address = (number << 40) + (work.address - reinterpret_cast<uint64_t>(buffer->address));
        }
    }
    log.push(made);
}

const GlobalBuffer* Core::find(const uint8_t* address) const {
    for (const GlobalBuffer& buffer : launch->buffers)
        if (address >= buffer.address && address < buffer.address + buffer.bytes) return &buffer;
    return nullptr;
}

bool is_vector() { return core_here().kind == CoreKind::Vector; }
bool is_cube() { return core_here().kind == CoreKind::Cube; }
bool cost_only() { return !core_here().move; }
Registers& registers() { return core_here().registers; }
uint8_t* data(const Local& tensor) {
    auto& bytes = core_here().memory->bytes[static_cast<int>(tensor.space)];
    return bytes.empty() ? nullptr : bytes.data() + tensor.offset;
}

void fail(Kind kind, Where where, const char* text, ...) {
    va_list arguments;
    va_start(arguments, text);
    std::string message = format(text, arguments);
    va_end(arguments);
    core_here().fail(kind, where, nullptr, message);
}

void fail(Where where, const char* text, ...) {
    va_list arguments;
    va_start(arguments, text);
    std::string message = format(text, arguments);
    va_end(arguments);
    core_here().fail(Kind::Argument, where, nullptr, message);
}

Local place(uint8_t position, Space space, uint64_t offset, uint64_t bytes, Dtype dtype, Where where) {
    const Core& core = core_here();
    const uint64_t capacity = core.launch->capacities.bytes[static_cast<int>(space)];
    if (space != Space::GM && offset + bytes > capacity && has(core.kind, space))
        core.fail(
            Kind::Capacity, where, "LocalTensor",
            format("Expected a tensor within the %llu bytes of %s, given bytes %llu to %llu.",
                   static_cast<unsigned long long>(capacity), name_of(space),
                   static_cast<unsigned long long>(offset), static_cast<unsigned long long>(offset + bytes)));
    if (bytes == 0 && offset < capacity) bytes = capacity - offset;
    return {space, position, dtype, static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes), -1};
}

// --- Instructions
// -------------------------------------------------------------------------------------------

Instruction::Instruction(Pipe pipe, const char* name, Where where) : pipe_(pipe), name_(name), where_(where) {
    Core& core = core_here();
    core.accesses.clear();
    core.copied.clear();
    skipped_ = !has(core.kind, pipe);
    if (skipped_ && core.launch->kind != Launch::Kind::Mixed)
        core.fail(Kind::Position, where, name,
                  format("Expected an instruction of a %s core, given one of pipe %s.",
                         core.kind == CoreKind::Cube ? "cube" : "vector", name_of(pipe)));
}

namespace {

std::string describe(const Core& core, const Local& tensor) {
    std::string text = format("%s at %u", name_of(tensor.space), tensor.offset);
    if (tensor.buffer >= 0)
        text += format(" in buffer %d, %s", tensor.buffer, name_of_position(tensor.position).c_str());
    (void)core;
    return text;
}

// Adds an operand of an instruction, after the checks of where it is. False: this core has no such memory.
bool add(Core& core, Access::Kind kind, Pipe pipe, const char* name, Where where, const Local& tensor,
         int64_t offset, uint64_t bytes, uint32_t count, int64_t stride, const char* role) {
    if (!has(core.kind, tensor.space)) {
        if (core.launch->kind == Launch::Kind::Mixed) return false;
        core.fail(Kind::Position, where, name,
                  format("%s: Expected memory of a %s core, given a tensor in %s (%s).", role,
                         core.kind == CoreKind::Cube ? "cube" : "vector", name_of(tensor.space),
                         name_of_position(tensor.position).c_str()));
    }
    if (tensor.space == Space::GM || tensor.position > 15)
        core.fail(Kind::Position, where, name,
                  format("%s: Expected a tensor that has memory, given none.", role));
    if (count == 0 || bytes == 0) return true;
    const int64_t reach = stride * static_cast<int64_t>(count - 1);
    const int64_t low = offset + std::min<int64_t>(reach, 0);
    const int64_t high = offset + std::max<int64_t>(reach, 0) + static_cast<int64_t>(bytes);
    const uint32_t capacity = core.launch->capacities.bytes[static_cast<int>(tensor.space)];
    if (low < 0 || high > tensor.bytes)
        core.fail(Kind::Bounds, where, name,
                  format("%s: Expected bytes within the tensor's %u (%s), given bytes %lld to %lld.", role,
                         tensor.bytes, describe(core, tensor).c_str(), static_cast<long long>(low),
                         static_cast<long long>(high)));
    if (tensor.offset + high > capacity)
        core.fail(Kind::Bounds, where, name,
                  format("%s: Expected bytes within the %u of %s, given bytes %lld to %lld.", role, capacity,
                         name_of(tensor.space), static_cast<long long>(tensor.offset + low),
                         static_cast<long long>(tensor.offset + high)));
    if (core.check)
        core.accesses.push_back({kind, tensor.space, role, static_cast<uint64_t>(tensor.offset + offset),
                                 bytes, stride, count, tensor.buffer});
    if (tensor.space == Space::UB && pipe != Pipe::S) {
        const auto p = static_cast<size_t>(pipe);
        const auto first = static_cast<uint32_t>(tensor.offset + low);
        const auto end = static_cast<uint32_t>(tensor.offset + high);
        const uint32_t over = core.known[static_cast<size_t>(Pipe::S)][p];
        if (kind != Access::Kind::Read) core.written[p].add(first, end, core.count[p] + 1, over);
        core.touched[p].add(first, end, core.count[p] + 1, over);
    }
    return true;
}

void add(Core& core, Access::Kind kind, const char* name, Where where, const Global& tensor, int64_t offset,
         uint64_t bytes, uint32_t count, int64_t stride, const char* role) {
    if (count == 0 || bytes == 0) return;
    const int64_t reach = stride * static_cast<int64_t>(count - 1);
    const int64_t low = offset + std::min<int64_t>(reach, 0);
    const int64_t high = offset + std::max<int64_t>(reach, 0) + static_cast<int64_t>(bytes);
    const GlobalBuffer* buffer = core.find(tensor.address);
    const auto start = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.address));
    if (!buffer) {
        const GlobalBuffer* nearest = nullptr;
        for (const GlobalBuffer& other : core.launch->buffers)
            if (other.address <= tensor.address && (!nearest || other.address > nearest->address))
                nearest = &other;
        if (!tensor.address)
            core.fail(Kind::Bounds, where, name,
                      format("%s: Expected a tensor in global memory, given none: SetGlobalBuffer was not "
                             "called or given null.",
                             role));
        if (nearest)
            core.fail(
                Kind::Bounds, where, name,
                format("%s: Expected bytes of an argument, given byte %lld of argument %d, which has %llu.",
                       role,
                       static_cast<long long>(
                           start + low - static_cast<int64_t>(reinterpret_cast<uintptr_t>(nearest->address))),
                       nearest->argument, static_cast<unsigned long long>(nearest->bytes)));
        core.fail(Kind::Bounds, where, name,
                  format("%s: Expected bytes of an argument, given an address before all of them.", role));
    }
    const auto base = static_cast<int64_t>(reinterpret_cast<uintptr_t>(buffer->address));
    const int64_t first = start - base + low, last = start - base + high;
    if (first < 0 || last > static_cast<int64_t>(buffer->bytes)) {
        const std::string which =
            buffer->argument < 0 ? "the workspace" : format("argument %d", buffer->argument);
        core.fail(Kind::Bounds, where, name,
                  format("%s: Expected bytes within the %llu of %s, given bytes %lld to %lld.", role,
                         static_cast<unsigned long long>(buffer->bytes), which.c_str(),
                         static_cast<long long>(first), static_cast<long long>(last)));
    }
    if (tensor.bytes && (low < 0 || high > static_cast<int64_t>(tensor.bytes)))
        core.fail(Kind::Bounds, where, name,
                  format("%s: Expected bytes within the global tensor's %llu, given bytes %lld to %lld.",
                         role, static_cast<unsigned long long>(tensor.bytes), static_cast<long long>(low),
                         static_cast<long long>(high)));
    if (core.check)
        core.accesses.push_back({kind, Space::GM, role, static_cast<uint64_t>(start + offset), bytes, stride,
                                 count, static_cast<int32_t>(buffer - core.launch->buffers.data())});
}

}  // namespace

void Instruction::reads(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride,
                        const char* role) {
    Core& core = *current;
    if (!skipped_ &&
        !add(core, Access::Kind::Read, pipe_, name_, where_, tensor, offset, bytes, count, stride, role))
        skipped_ = true;
}

void Instruction::writes(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride,
                         const char* role) {
    Core& core = *current;
    if (!skipped_ &&
        !add(core, Access::Kind::Write, pipe_, name_, where_, tensor, offset, bytes, count, stride, role))
        skipped_ = true;
}

void Instruction::updates(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride,
                          const char* role) {
    Core& core = *current;
    if (!skipped_ &&
        !add(core, Access::Kind::Update, pipe_, name_, where_, tensor, offset, bytes, count, stride, role))
        skipped_ = true;
}

void Instruction::reads_any(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                            int64_t stride, const char* role) {
    Core& core = *current;
    if (!skipped_ &&
        !add(core, Access::Kind::ReadAny, pipe_, name_, where_, tensor, offset, bytes, count, stride, role))
        skipped_ = true;
}

void Instruction::reads_blocks(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                               int64_t stride, const char* role) {
    Core& core = *current;
    if (!skipped_ && !add(core, Access::Kind::ReadBlocks, pipe_, name_, where_, tensor, offset, bytes, count,
                          stride, role))
        skipped_ = true;
}

void Instruction::copies(const Local& dst, int64_t dst_offset, int64_t dst_stride, const Local& src,
                         int64_t src_offset, int64_t src_stride, uint64_t bytes, uint32_t count) {
    reads_any(src, src_offset, bytes, count, src_stride);
    writes(dst, dst_offset, bytes, count, dst_stride);
    if (skipped_ || !current->check) return;
    current->copied.push_back({src.space, dst.space, static_cast<uint64_t>(src.offset + src_offset),
                               static_cast<uint64_t>(dst.offset + dst_offset), bytes, src_stride, dst_stride,
                               count});
}

void Instruction::after(Pipe other, uint32_t clock) {
    if (skipped_) return;
    uint32_t& known = current->known[static_cast<size_t>(pipe_)][static_cast<size_t>(other)];
    known = std::max(known, clock);
}

uint32_t Instruction::clock() const { return current->count[static_cast<size_t>(pipe_)]; }

bool Instruction::settled(const Local& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                          int64_t stride) const {
    if (skipped_ || !current->check) return true;
    const auto p = static_cast<size_t>(pipe_);
    return last_write(*current, tensor, offset, bytes, count, stride, pipe_) <=
           std::max(current->known[p][p], current->barrier_at[p]);
}

void Instruction::reads(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride,
                        const char* role) {
    if (!skipped_)
        add(*current, Access::Kind::Read, name_, where_, tensor, offset, bytes, count, stride, role);
}

void Instruction::writes(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count, int64_t stride,
                         const char* role) {
    if (!skipped_)
        add(*current, Access::Kind::Write, name_, where_, tensor, offset, bytes, count, stride, role);
}

void Instruction::updates(const Global& tensor, int64_t offset, uint64_t bytes, uint32_t count,
                          int64_t stride, const char* role) {
    if (!skipped_)
        add(*current, Access::Kind::Update, name_, where_, tensor, offset, bytes, count, stride, role);
}

void Instruction::aligned(const Local& tensor, uint32_t bytes, const char* role) {
    if (skipped_ || tensor.offset % bytes == 0) return;
    current->fail(Kind::Alignment, where_, name_,
                  format("%s: Expected an address that is a multiple of %u bytes, given %s.", role, bytes,
                         describe(*current, tensor).c_str()));
}

void Instruction::lives_in(const Local& tensor, Space space, const char* role) {
    if (skipped_ || tensor.space == space) return;
    if (!has(current->kind, space) && current->launch->kind == Launch::Kind::Mixed) {
        skipped_ = true;
        return;
    }
    current->fail(Kind::Position, where_, name_,
                  format("%s: Expected a tensor in %s, given one in %s (%s).", role, name_of(space),
                         name_of(tensor.space), name_of_position(tensor.position).c_str()));
}

void Instruction::takes(bool supported, Dtype dtype, const char* role) {
    if (skipped_ || supported) return;
    static constexpr const char* names[] = {"int4",     "int8",    "uint8",  "int16",  "uint16",
                                            "int32",    "uint32",  "int64",  "uint64", "float16",
                                            "bfloat16", "float32", "float64"};
    current->fail(Kind::Dtype, where_, name_,
                  format("%s: Expected a dtype that the instruction takes on dav-2201, given %s.", role,
                         names[static_cast<int>(dtype)]));
}

void Instruction::require(bool condition, const char* text, ...) {
    if (skipped_ || condition) return;
    va_list arguments;
    va_start(arguments, text);
    std::string message = format(text, arguments);
    va_end(arguments);
    current->fail(Kind::Argument, where_, name_, message);
}

void Instruction::work(const Work& work) { work_ = work; }

bool Instruction::issue() {
    if (skipped_) return false;
    Core& core = *current;
    core.poll();
    const auto p = static_cast<size_t>(pipe_);
    ++core.count[p];
    if (core.check) {
        for (const Access& access : core.accesses) {
            if (access.space == Space::GM)
                check_global(core, access, pipe_, name_, where_);
            else
                check_local(core, access, pipe_, name_, where_);
        }
        const Site site{name_, where_.file, where_.line};
        if (std::any_of(core.accesses.begin(), core.accesses.end(),
                        [](const Access& access) { return access.space != Space::GM; }))
            core.sites[p].push_back({core.count[p], site});
        for (const Access& access : core.accesses) {
            if (access.space == Space::GM)
                mark_global(core, access, pipe_, site);
            else
                mark_local(core, access, pipe_);
        }
        if (!core.copied.empty()) mark_copied(core);
    }
    core.record(Event::Instruction, pipe_, pipe_, 0, name_, where_, work_);
    return core.move;
}

// --- The scalar unit
// ----------------------------------------------------------------------------------------

namespace {

// On a vector core the compiler makes the scalar unit wait for what it needs from UB, and later instructions
// of other pipes for what it wrote there.
void synchronise(Core& core, uint32_t low, uint32_t high, bool writes, Where where) {
    constexpr auto s = static_cast<size_t>(Pipe::S);
    for (const Pipe pipe : {Pipe::V, Pipe::MTE2, Pipe::MTE3}) {
        const auto p = static_cast<size_t>(pipe);
        const uint32_t clock = (writes ? core.touched[p] : core.written[p]).last(low, high);
        if (clock > core.known[s][p]) {
            core.record(Event::ScalarWait, pipe, Pipe::S, 0, "ScalarWait", where, {});
            for (size_t q = 0; q < pipes; ++q)  // what comes later is issued later
                for (size_t r = 0; r < pipes; ++r) {
                    const uint32_t seen = r == p ? core.count[p] : core.known[p][r];
                    core.known[q][r] = std::max(core.known[q][r], seen);
                }
        }
    }
}

template <typename Tensor>
bool scalar(const Tensor& tensor, uint64_t offset, uint32_t bytes, bool reads, bool writes, const char* name,
            Where where) {
    Core& core = core_here();
    constexpr auto s = static_cast<size_t>(Pipe::S);
    if constexpr (std::is_same_v<Tensor, Local>)
        if (core.kind == CoreKind::Vector && tensor.space == Space::UB)
            synchronise(core, static_cast<uint32_t>(tensor.offset + offset),
                        static_cast<uint32_t>(tensor.offset + offset + bytes), writes, where);
    Instruction instruction(Pipe::S, name, where);
    const auto at = static_cast<int64_t>(offset);
    if (reads && writes)
        instruction.updates(tensor, at, bytes, 1, 0, "tensor");
    else if (reads)
        instruction.reads(tensor, at, bytes, 1, 0, "tensor");
    else
        instruction.writes(tensor, at, bytes, 1, 0, "tensor");
    const bool moves = instruction.issue();
    if (core.kind == CoreKind::Vector)
        for (const Pipe pipe : {Pipe::V, Pipe::MTE2, Pipe::MTE3}) {
            auto& known = core.known[static_cast<size_t>(pipe)][s];
            known = core.count[s];
        }
    return moves;
}

}  // namespace

void load(const Local& tensor, uint64_t offset, void* value, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, true, false, "GetValue", where))
        std::memcpy(value, data(tensor) + offset, bytes);
    else
        std::memset(value, 0, bytes);
}

void load(const Global& tensor, uint64_t offset, void* value, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, true, false, "GetValue", where))
        std::memcpy(value, tensor.address + offset, bytes);
    else
        std::memset(value, 0, bytes);
}

void store(const Local& tensor, uint64_t offset, const void* value, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, false, true, "SetValue", where))
        std::memcpy(data(tensor) + offset, value, bytes);
}

void store(const Global& tensor, uint64_t offset, const void* value, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, false, true, "SetValue", where))
        std::memcpy(tensor.address + offset, value, bytes);
}

void clean_cache() { core_here().cleans = true; }

namespace {
thread_local uint64_t nothing = 0;  // what a reference refers to in a run that only costs
}

void* scalar_reference(const Local& tensor, uint64_t offset, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, false, true, "operator()", where)) return data(tensor) + offset;
    return &nothing;
}

void* scalar_reference(const Global& tensor, uint64_t offset, uint32_t bytes, Where where) {
    if (scalar(tensor, offset, bytes, false, true, "operator()", where)) return tensor.address + offset;
    return &nothing;
}

}  // namespace sim
