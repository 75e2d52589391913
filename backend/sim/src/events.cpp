// Flags between the pipes of a core and between cores.
#include <algorithm>

#include "engine.hpp"

namespace sim {

namespace {

std::string event_name(Pipe from, Pipe to) { return format("%s_%s", name_of(from), name_of(to)); }

bool other_kind(const Core& core, Pipe from, Pipe to) {
    const auto cube_only = [](Pipe pipe) {
        return pipe == Pipe::M || pipe == Pipe::MTE1 || pipe == Pipe::FIX;
    };
    if (core.kind == CoreKind::Vector) return cube_only(from) || cube_only(to);
    return from == Pipe::V || to == Pipe::V;
}

// Whether this core takes part: in a kernel for both kinds an event of the other kind's pipes is passed over.
bool takes_part(const Core& core, Pipe from, Pipe to, const char* name, Where where) {
    if (!other_kind(core, from, to)) return true;
    if (core.launch->kind != Launch::Kind::Mixed)
        core.fail(Kind::Position, where, name,
                  format("Expected an event of a %s core's pipes, given %s.",
                         core.kind == CoreKind::Cube ? "cube" : "vector", event_name(from, to).c_str()));
    return false;
}

Flag& flag_of(Core& core, Pipe from, Pipe to, int32_t id, const char* name, Where where) {
    if (id < 0 || id > 7)
        core.fail(Kind::Argument, where, name, format("Expected an event id of 0 to 7, given %d.", id));
    return core.flags[static_cast<size_t>(from) * pipes + static_cast<size_t>(to)][static_cast<size_t>(id)];
}

void join(std::array<uint32_t, pipes>& into, const std::array<uint32_t, pipes>& from) {
    for (size_t q = 0; q < pipes; ++q) into[q] = std::max(into[q], from[q]);
}

}  // namespace

void set_flag(Pipe from, Pipe to, int32_t id, Where where) {
    Core& core = *current;
    core.poll();
    if (!takes_part(core, from, to, "SetFlag", where)) return;
    Flag& flag = flag_of(core, from, to, id, "SetFlag", where);
    const auto p = static_cast<size_t>(from);
    if (flag.set && core.check)
        core.fail(
            Kind::Queue, where, "SetFlag",
            format("Expected a WaitFlag for %s, id %d, before it is set again, given a second SetFlag after "
                   "the one in line %d.",
                   event_name(from, to).c_str(), id, flag.where.line));
    ++core.epoch;
    flag.set = true;
    flag.where = where;
    flag.clock = core.known[p];
    flag.clock[p] = core.count[p];
    core.record(Event::SetFlag, from, to, id, "SetFlag", where, {});
}

void wait_flag(Pipe from, Pipe to, int32_t id, Where where) {
    Core& core = *current;
    core.poll();
    if (!takes_part(core, from, to, "WaitFlag", where)) return;
    Flag& flag = flag_of(core, from, to, id, "WaitFlag", where);
    if (!flag.set)
        core.fail(
            Kind::Deadlock, where, "WaitFlag",
            format(
                "Expected a SetFlag of %s, id %d, before it is waited for, given none: the core would wait "
                "forever.",
                event_name(from, to).c_str(), id));
    flag.set = false;
    if (to == Pipe::S) {  // what the scalar unit waits for is over before it issues anything more
        for (auto& known : core.known) join(known, flag.clock);
    } else {
        join(core.known[static_cast<size_t>(to)], flag.clock);
    }
    core.record(Event::WaitFlag, from, to, id, "WaitFlag", where, {});
}

void pipe_barrier(Pipe pipe, Where where) {
    Core& core = *current;
    core.poll();
    if (pipe == Pipe::ALL) {
        for (auto& known : core.known) known = core.count;
        ++core.epoch;
    } else if (other_kind(core, pipe, pipe)) {
        return;  // nothing of that pipe to wait for
    }
    core.record(Event::PipeBarrier, pipe, pipe, 0, "PipeBarrier", where, {});
    if (pipe == Pipe::ALL)
        core.barrier_at = core.count;
    else
        core.barrier_at[static_cast<size_t>(pipe)] = core.count[static_cast<size_t>(pipe)];
}

int32_t free_event(Pipe from, Pipe to, bool take, Where where) {
    Core& core = *current;
    if (other_kind(core, from, to)) return 0;
    auto& flags = core.flags[static_cast<size_t>(from) * pipes + static_cast<size_t>(to)];
    for (int32_t id = 0; id < 8; ++id)
        if (!flags[static_cast<size_t>(id)].taken) {
            flags[static_cast<size_t>(id)].taken = take;
            return id;
        }
    core.fail(Kind::Queue, where, "AllocEventID",
              format("Expected one of the 8 event ids of %s to be free, given 8 in use.",
                     event_name(from, to).c_str()));
}

void release_event(Pipe from, Pipe to, int32_t id, Where where) {
    Core& core = *current;
    if (other_kind(core, from, to)) return;
    flag_of(core, from, to, id, "ReleaseEventID", where).taken = false;
}

// --- Between cores
// ------------------------------------------------------------------------------------------

namespace {

// Ends a segment of this core's work: what pipe `pipe` comes after is over once the signal is seen.
Token publish(Core& core, Pipe pipe) {
    if (pipe == Pipe::ALL) {
        core.segments.push_back(core.count);
    } else {
        const auto p = static_cast<size_t>(pipe);
        auto covered = core.known[p];
        covered[p] = core.count[p];
        core.segments.push_back(covered);
    }
    core.know[static_cast<size_t>(core.index)] = static_cast<uint32_t>(core.segments.size());
    return {core.know};
}

void merge(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// What comes after a wait on `pipe`. Of its own work a core knows again what its own signal covered.
void seen(Core& core, const Token& token, Pipe pipe) {
    merge(core.know, token.know);
    core.waits.push_back(core.know);
    const uint32_t own = token.know[static_cast<size_t>(core.index)];
    if (own == 0) return;
    const auto& covered = core.segments[own - 1];
    if (pipe == Pipe::S || pipe == Pipe::ALL) {
        for (auto& known : core.known) join(known, covered);
    } else {
        join(core.known[static_cast<size_t>(pipe)], covered);
    }
}

int32_t index_of(const Launch& launch, CoreKind kind, int32_t block, int32_t sub_block) {
    if (launch.kind != Launch::Kind::Mixed) return block;
    return block * (1 + launch.vectors_per_block) + (kind == CoreKind::Cube ? 0 : 1 + sub_block);
}

}  // namespace

void core_set(uint8_t mode, Pipe pipe, uint16_t id, Where where) {
    Core& core = *current;
    Launch& launch = *core.launch;
    core.poll();
    if (id > 15)
        core.fail(Kind::Argument, where, "CrossCoreSetFlag",
                  format("Expected a flag id of 0 to 15, given %u.", id));
    if (mode > 2)
        core.fail(Kind::Argument, where, "CrossCoreSetFlag",
                  format("Expected a mode of 0, 1 or 2, given %u.", mode));
    Work work;
    work.m = mode;
    core.record(Event::CoreSet, pipe, pipe, id, "CrossCoreSetFlag", where, work);
    const Token token = publish(core, pipe);
    const std::lock_guard lock(launch.mutex);
    // Who must have set it, and who is told then.
    std::vector<int32_t> setters, told;
    const int32_t kind = core.kind == CoreKind::Cube ? 1 : 0;
    if (mode == 0) {
        for (int32_t block = 0; block < launch.blocks; ++block) {
            const int32_t subs = core.kind == CoreKind::Vector && launch.kind == Launch::Kind::Mixed
                                     ? launch.vectors_per_block
                                     : 1;
            for (int32_t sub = 0; sub < subs; ++sub)
                setters.push_back(index_of(launch, core.kind, block, sub));
        }
        told = setters;
    } else if (mode == 1 || (mode == 2 && core.kind == CoreKind::Vector)) {
        if (launch.kind != Launch::Kind::Mixed && mode == 2)
            core.fail(
                Kind::Argument, where, "CrossCoreSetFlag",
                "Mode 2 is between a cube core and its vector cores: expected a kernel for both kinds.");
        const int32_t subs = launch.kind == Launch::Kind::Mixed && core.kind == CoreKind::Vector
                                 ? launch.vectors_per_block
                                 : 1;
        for (int32_t sub = 0; sub < subs; ++sub)
            setters.push_back(index_of(launch, core.kind, core.block, sub));
        if (mode == 1)
            told = setters;
        else
            told.push_back(index_of(launch, CoreKind::Cube, core.block, 0));
    } else {
        if (launch.kind != Launch::Kind::Mixed)
            core.fail(
                Kind::Argument, where, "CrossCoreSetFlag",
                "Mode 2 is between a cube core and its vector cores: expected a kernel for both kinds.");
        setters.push_back(core.index);
        for (int32_t sub = 0; sub < launch.vectors_per_block; ++sub)
            told.push_back(index_of(launch, CoreKind::Vector, core.block, sub));
    }
    auto& group = launch.groups[{mode * 2 + kind, mode == 0 ? 0 : core.block, id}];
    group.arrived.resize(setters.size());
    const auto me = std::find(setters.begin(), setters.end(), core.index) - setters.begin();
    group.arrived[static_cast<size_t>(me)].push_back(token);
    while (std::all_of(group.arrived.begin(), group.arrived.end(),
                       [](const auto& queue) { return !queue.empty(); })) {
        Token all{std::vector<uint32_t>(core.know.size(), 0)};
        for (auto& queue : group.arrived) {
            merge(all.know, queue.front().know);
            queue.pop_front();
        }
        for (const int32_t other : told) {
            auto& counter = launch.counters[{other, id}];
            counter.push_back(all);
            if (counter.size() > 15 && core.check)
                core.fail(
                    Kind::Queue, where, "CrossCoreSetFlag",
                    format("Expected at most 15 signals of flag %u that are not waited for yet, given 16.",
                           id));
        }
    }
    launch.changed.notify_all();
}

void core_wait(uint8_t, Pipe pipe, uint16_t id, Where where) {
    Core& core = *current;
    Launch& launch = *core.launch;
    core.poll();
    if (id > 15)
        core.fail(Kind::Argument, where, "CrossCoreWaitFlag",
                  format("Expected a flag id of 0 to 15, given %u.", id));
    std::unique_lock lock(launch.mutex);
    auto& counter = launch.counters[{core.index, id}];
    launch.block(core, lock, "CrossCoreWaitFlag", where, format("flag %u in line %d", id, where.line),
                 [&] { return !counter.empty(); });
    const Token token = counter.front();
    counter.pop_front();
    lock.unlock();
    seen(core, token, pipe);
    core.record(Event::CoreWait, pipe, pipe, id, "CrossCoreWaitFlag", where, {});
}

namespace {

void meet(bool vector_only, int32_t used, Where where) {
    Core& core = *current;
    Launch& launch = *core.launch;
    core.poll();
    if (vector_only && core.kind == CoreKind::Cube && launch.kind == Launch::Kind::Mixed) return;
    const bool all = !vector_only && launch.kind == Launch::Kind::Mixed;
    const int32_t members = used > 0 ? used : all ? launch.cores() : launch.cores_of(core.kind);
    const int32_t chip_blocks = launch.kind == Launch::Kind::Vector
                                    ? static_cast<int32_t>(launch.capacities.vector_cores)
                                    : static_cast<int32_t>(launch.capacities.cube_cores);
    if (launch.blocks > chip_blocks && chip_blocks > 0)
        core.fail(
            Kind::Deadlock, where, "SyncAll",
            format(
                "Expected at most %d blocks, which all run at once, given %d: the first wait for blocks that "
                "have not started.",
                chip_blocks, launch.blocks));
    const Token token = publish(core, Pipe::ALL);
    for (auto& known : core.known) known = core.count;
    std::unique_lock lock(launch.mutex);
    auto& barrier = launch.barriers[all ? 1 : 0];
    if (barrier.know.empty()) barrier.know.assign(core.know.size(), 0);
    merge(barrier.know, token.know);
    const uint64_t generation = barrier.generation;
    if (++barrier.arrived == members) {
        barrier.arrived = 0;
        barrier.result = barrier.know;
        barrier.know.clear();
        ++barrier.generation;
        launch.changed.notify_all();
    } else {
        launch.block(core, lock, "SyncAll", where, format("all cores in line %d", where.line),
                     [&] { return barrier.generation != generation; });
    }
    const Token result{barrier.result};
    lock.unlock();
    seen(core, result, Pipe::ALL);
    Work work;
    work.m = all ? 1 : 0;
    core.record(Event::SyncAll, Pipe::ALL, Pipe::ALL, 0, "SyncAll", where, work);
}

}  // namespace

void sync_all(bool vector_only, Where where) { meet(vector_only, 0, where); }

void soft_sync_all(const Global& memory, const Local& buffer, int32_t used, Where where) {
    const Core& core = *current;
    if (core.kind == CoreKind::Cube && core.launch->kind == Launch::Kind::Mixed) return;
    const auto cores = static_cast<uint64_t>(used > 0 ? used : core.launch->cores_of(CoreKind::Vector));
    const GlobalBuffer* found = core.find(memory.address);
    const uint64_t bytes = found ? found->bytes - static_cast<uint64_t>(memory.address - found->address) : 0;
    if (bytes < cores * 32)
        core.fail(Kind::Bounds, where, "SyncAll",
                  format("Expected 32 bytes of global memory for each of the %llu cores, given %llu.",
                         static_cast<unsigned long long>(cores), static_cast<unsigned long long>(bytes)));
    if (buffer.bytes < cores * 32)
        core.fail(Kind::Bounds, where, "SyncAll",
                  format("Expected 32 bytes of the unified buffer for each of the %llu cores, given %u.",
                         static_cast<unsigned long long>(cores), buffer.bytes));
    meet(true, used, where);
}

void block_set(const Global& memory, int64_t block, int32_t id, Where where) {
    Core& core = *current;
    Launch& launch = *core.launch;
    core.poll();
    const Token token = publish(core, Pipe::ALL);
    for (auto& known : core.known) known = core.count;
    Work work;
    work.m = 3;
    core.record(Event::CoreSet, Pipe::ALL, Pipe::ALL, id, "IBSet", where, work);
    const std::lock_guard lock(launch.mutex);
    launch.block_flags[{memory.address, block, id}].push_back(token);
    launch.changed.notify_all();
}

void block_wait(const Global& memory, int64_t block, int32_t id, Where where) {
    Core& core = *current;
    Launch& launch = *core.launch;
    core.poll();
    for (auto& known : core.known) known = core.count;
    std::unique_lock lock(launch.mutex);
    auto& flag = launch.block_flags[{memory.address, block, id}];
    launch.block(core, lock, "IBWait", where,
                 format("block %lld, event %d in line %d", static_cast<long long>(block), id, where.line),
                 [&] { return !flag.empty(); });
    const Token token = flag.front();
    flag.pop_front();
    lock.unlock();
    seen(core, token, Pipe::ALL);
    core.record(Event::CoreWait, Pipe::ALL, Pipe::ALL, id, "IBWait", where, {});
}

int64_t block_index() {
    const Core& core = *current;
    if (core.launch->kind == Launch::Kind::Mixed && core.kind == CoreKind::Vector)
        return int64_t{core.block} * core.launch->vectors_per_block + core.sub_block;
    return core.block;
}
int64_t launch_block() { return current->block; }
int64_t block_count() { return current->launch->blocks; }
int64_t sub_block_index() { return current->sub_block; }
int64_t sub_block_count() {
    return current->launch->kind == Launch::Kind::Mixed ? current->launch->vectors_per_block : 1;
}
uint8_t* workspace() { return current->launch->workspace; }

}  // namespace sim
