// Launches: cores on threads of the host, as many at a time as it has processors.
#include <algorithm>

#include "engine.hpp"

namespace sim {

namespace {

// Memories of cores that have ended, for those that start.
std::mutex pool_mutex;
std::vector<std::unique_ptr<CoreMemory>> pool;
constexpr size_t pool_limit = 16;

std::unique_ptr<CoreMemory> take_memory(CoreKind kind, const Capacities& capacities) {
    {
        const std::lock_guard lock(pool_mutex);
        for (auto it = pool.begin(); it != pool.end(); ++it)
            if ((*it)->kind == kind && std::equal(std::begin(capacities.bytes), std::end(capacities.bytes),
                                                  (*it)->capacities.bytes)) {
                auto memory = std::move(*it);
                pool.erase(it);
                return memory;
            }
    }
    return std::make_unique<CoreMemory>(kind, capacities);
}

}  // namespace

CoreMemory::CoreMemory(CoreKind kind, const Capacities& capacities) : kind(kind), capacities(capacities) {
    for (size_t s = 1; s < spaces; ++s) {
        if ((static_cast<Space>(s) == Space::UB) != (kind == CoreKind::Vector)) continue;
        bytes[s].assign(capacities.bytes[s], 0);
        shadow[s].size(capacities.bytes[s]);
    }
}

Core::Core(Launch& of, int32_t number)
    : launch(&of), index(number), check(of.check), cost(of.cost), move(of.move) {
    if (of.kind == Launch::Kind::Mixed) {
        const int32_t per_block = 1 + of.vectors_per_block;
        block = number / per_block;
        kind = number % per_block == 0 ? CoreKind::Cube : CoreKind::Vector;
        sub_block = kind == CoreKind::Cube ? 0 : number % per_block - 1;
        kind_index = kind == CoreKind::Cube ? block : block * of.vectors_per_block + sub_block;
    } else {
        block = kind_index = number;
        sub_block = 0;
        kind = of.kind == Launch::Kind::Cube ? CoreKind::Cube : CoreKind::Vector;
    }
    memory = take_memory(kind, of.capacities);
    traces.resize(of.buffers.size());
    know.assign(static_cast<size_t>(of.cores()), 0);
    waits.push_back(know);
}

Core::~Core() {
    if (!memory) return;
    for (auto& shadow : memory->shadow) shadow.clear();
    const std::lock_guard lock(pool_mutex);
    if (pool.size() < pool_limit) pool.push_back(std::move(memory));
}

// What must hold when the kernel's code is through.
void Core::finish() {
    if (!check) return;
    for (int from = 0; from < pipes; ++from)
        for (int to = 0; to < pipes; ++to)
            for (const Flag& flag : flags[static_cast<size_t>(from * pipes + to)])
                if (flag.set) {
                    const auto id = &flag - flags[static_cast<size_t>(from * pipes + to)].data();
                    fail(sim::Kind::Queue, flag.where, "SetFlag",
                         format("Expected a WaitFlag for %s_%s, id %d, before the kernel ends, given none.",
                                name_of(static_cast<Pipe>(from)), name_of(static_cast<Pipe>(to)),
                                static_cast<int>(id)));
                }
}

int32_t Launch::cores_of(CoreKind of) const {
    if (kind == Kind::Mixed) return of == CoreKind::Cube ? blocks : blocks * vectors_per_block;
    return (kind == Kind::Cube) == (of == CoreKind::Cube) ? blocks : 0;
}

void Launch::report(const Finding& found) {
    const std::lock_guard lock(mutex);
    if (found.kind == sim::Kind::Stopped) return;
    if (finding.kind == sim::Kind::None || found.core < finding.core) finding = found;
    if (failed.load() > found.core) failed = found.core;
    changed.notify_all();
}

void Launch::run_core(int32_t index) {
    Core* const before = current;
    auto core = std::make_unique<Core>(*this, index);
    current = core.get();
    try {
        entry(arguments.data());
        core->finish();
    } catch (const Stop& stop) {
        report(stop.finding);
    } catch (const std::exception& error) {
        report({sim::Kind::Argument, index, 0, std::string("The kernel threw: ") + error.what()});
    }
    current = before;
    if (core->memory) {
        for (auto& shadow : core->memory->shadow) shadow.clear();
        const std::lock_guard lock(pool_mutex);
        if (pool.size() < pool_limit) pool.push_back(std::move(core->memory));
        core->memory.reset();
    }
    core->sites = {};
    core->accesses = {};
    const std::lock_guard lock(mutex);
    finished[static_cast<size_t>(index)] = std::move(core);
}

// Takes cores until none is left. Called with a slot.
void Launch::worker() {
    std::unique_lock lock(mutex);
    while (next < cores() && failed.load() >= next) {
        const int32_t index = next++;
        lock.unlock();
        run_core(index);
        lock.lock();
    }
    --running;
    --workers;
    changed.notify_all();
}

// Starts a worker if there is work and a slot for it; called under the mutex.
void Launch::start_worker() {
    if (next >= cores() || running >= slots || failed.load() < next) return;
    ++running;
    ++workers;
    threads.emplace_back([this] { worker(); });
}

// Nobody runs or will start, and nobody who waits can go on; called under the mutex.
bool Launch::stuck() const {
    if (running > 0 || (next < cores() && failed.load() >= next)) return false;
    return std::none_of(waiting.begin(), waiting.end(), [](const Waiting* other) { return other->ready(); });
}

void Launch::block(Core& core, std::unique_lock<std::mutex>& lock, const char* name, Where where,
                   std::string what, std::function<bool()> ready) {
    if (ready()) return;
    const Waiting me{&core, std::move(what), std::move(ready)};
    waiting.push_back(&me);
    --running;
    start_worker();
    changed.notify_all();
    const auto stopped = [&] { return failed.load() < core.index; };
    // A finding of another core ends those after it and those that wait for it.
    changed.wait(lock, [&] { return stopped() || (me.ready() && running < slots) || stuck(); });
    const bool ready_now = me.ready();
    std::string text;
    if (!ready_now && finding.kind == sim::Kind::None && !stopped()) {
        text = "The cores wait for each other forever:";
        std::vector<const Waiting*> all = waiting;
        std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->core->index < b->core->index; });
        for (size_t i = 0; i < all.size(); ++i) {
            if (i == 6) {
                text += format(" and %zu more;", all.size() - i);
                break;
            }
            text += format(" %s for %s;", all[i]->core->name().c_str(), all[i]->what.c_str());
        }
        text.back() = '.';
    }
    waiting.erase(std::find(waiting.begin(), waiting.end(), &me));
    ++running;
    if (ready_now) return;
    if (!text.empty()) {
        failed = std::min(failed.load(), core.index);
        finding = {sim::Kind::Deadlock, core.index, where.line, format("[%s] %s", name, text.c_str())};
        changed.notify_all();
    }
    lock.unlock();
    throw Stop{{sim::Kind::Stopped, core.index, 0, "stopped"}};
}

void Launch::run() {
    finished.resize(static_cast<size_t>(cores()));
    slots = std::max(1, slots);
    {
        const std::lock_guard lock(mutex);
        ++running;
        ++workers;
        const int32_t more = std::min(slots, cores()) - 1;
        for (int32_t i = 0; i < more; ++i) start_worker();
    }
    worker();
    {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return workers == 0; });
    }
    for (std::thread& thread : threads) thread.join();
    if (check && finding.kind == sim::Kind::None && failed.load() == INT32_MAX) check_cores();
}

}  // namespace sim
