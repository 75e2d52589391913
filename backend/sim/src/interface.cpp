// What Python calls, and the executor: a C interface.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

#include "engine.hpp"
#include "sim/interface.hpp"

namespace {

std::mutex launches_mutex;
std::set<sim::Launch*> launches;  // that run

// The system's own workspace, given to every launch: touched by few.
constexpr uint64_t system_workspace = uint64_t{16} << 20;

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

struct pyasc_sim_run {
    sim::Launch launch;
    std::vector<std::vector<uint8_t>> values;
    std::unique_ptr<void, Free> workspace;
    std::thread thread;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
};

namespace {

void prepare(pyasc_sim_run& run, const pyasc_sim_launch& description) {
    sim::Launch& launch = run.launch;
    launch.entry = description.entry;
    launch.blocks = static_cast<int32_t>(description.blocks);
    launch.kind = static_cast<sim::Launch::Kind>(description.kind);
    launch.vectors_per_block = static_cast<int32_t>(description.vectors_per_block);
    launch.check = description.check;
    launch.cost = description.cost;
    launch.move = description.move;
    std::memcpy(launch.capacities.bytes, description.capacities, sizeof launch.capacities.bytes);
    launch.capacities.cube_cores = description.cube_cores;
    launch.capacities.vector_cores = description.vector_cores;
    const auto processors = static_cast<int32_t>(std::thread::hardware_concurrency());
    launch.slots = description.threads ? static_cast<int32_t>(description.threads) : processors;
    for (uint32_t i = 0; i < description.count; ++i) {
        const pyasc_sim_argument& argument = description.arguments[i];
        if (argument.global) {
            std::vector<uint8_t> pointer(8);
            std::memcpy(pointer.data(), &argument.address, 8);
            run.values.push_back(std::move(pointer));
            if (argument.bytes)
                launch.buffers.push_back({static_cast<uint8_t*>(argument.address), argument.bytes, static_cast<int32_t>(i)});
        } else {
            // Aligned for whatever it holds.
            std::vector<uint8_t> value(argument.bytes);
            std::memcpy(value.data(), argument.address, argument.bytes);
            run.values.push_back(std::move(value));
        }
    }
    for (auto& value : run.values) launch.arguments.push_back(value.data());
    run.workspace.reset(std::calloc(1, system_workspace));
    launch.workspace = static_cast<uint8_t*>(run.workspace.get());
    launch.buffers.push_back({launch.workspace, system_workspace, -1});
}

void carry_out(pyasc_sim_run& run) {
    {
        const std::lock_guard lock(launches_mutex);
        launches.insert(&run.launch);
    }
    run.launch.run();
    const std::lock_guard lock(launches_mutex);
    launches.erase(&run.launch);
}

std::mutex messages_mutex;
std::vector<sim::Finding> messages;  // of launches by the executor
constexpr int64_t first_code = 1000;
constexpr size_t messages_limit = 256;

}  // namespace

extern "C" {

pyasc_sim_run* pyasc_sim_start(const pyasc_sim_launch* description) {
    auto run = std::make_unique<pyasc_sim_run>();
    prepare(*run, *description);
    run->thread = std::thread([state = run.get()] {
        carry_out(*state);
        const std::lock_guard lock(state->mutex);
        state->done = true;
        state->changed.notify_all();
    });
    return run.release();
}

int pyasc_sim_wait(pyasc_sim_run* run, uint32_t milliseconds) {
    std::unique_lock lock(run->mutex);
    return run->changed.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] { return run->done; }) ? 1 : 0;
}

void pyasc_sim_stop(pyasc_sim_run* run) {
    const std::lock_guard lock(run->launch.mutex);
    run->launch.failed = -1;
    run->launch.changed.notify_all();
}

void pyasc_sim_stop_all(void) {
    const std::lock_guard lock(launches_mutex);
    for (sim::Launch* launch : launches) {
        const std::lock_guard inner(launch->mutex);
        launch->failed = -1;
        launch->changed.notify_all();
    }
}

void pyasc_sim_free(pyasc_sim_run* run) {
    const std::unique_ptr<pyasc_sim_run> owned(run);
    if (owned->thread.joinable()) owned->thread.join();
}

int pyasc_sim_finding(const pyasc_sim_run* run, const char** message, int32_t* line, int32_t* core) {
    const sim::Finding& finding = run->launch.finding;
    *message = finding.message.c_str();
    *line = finding.line;
    *core = finding.core;
    if (finding.kind == sim::Kind::None && run->launch.failed.load() < 0) return static_cast<int>(sim::Kind::Stopped);
    return static_cast<int>(finding.kind);
}

uint32_t pyasc_sim_cores(const pyasc_sim_run* run) { return static_cast<uint32_t>(run->launch.cores()); }

const void* pyasc_sim_log(const pyasc_sim_run* run, uint32_t core, uint64_t* count) {
    const auto& finished = run->launch.finished;
    if (core >= finished.size() || !finished[core]) {
        *count = 0;
        return nullptr;
    }
    *count = finished[core]->log.size();
    return finished[core]->log.data();
}

// The names in logs, each followed by a zero byte; returns how many bytes there are, at most `size` written.
uint64_t pyasc_sim_names(char* into, uint64_t size) {
    std::string text;
    for (const std::string& name : sim::all_names()) text += name + '\0';
    std::memcpy(into, text.data(), std::min<uint64_t>(size, text.size()));
    return text.size();
}

uint32_t pyasc_sim_record_size(void) { return sizeof(sim::Record); }

void pyasc_sim_entry(void* const* pointers, const int64_t* integers, const uint64_t* scalars, int64_t begin,
                     int64_t end, void*, void*, int64_t* status) {
    if (begin != 0 || end <= 0) return;
    const auto* bound = reinterpret_cast<const pyasc_sim_bound*>(integers[0]);
    std::vector<pyasc_sim_argument> arguments(bound->arguments, bound->arguments + bound->launch.count);
    std::vector<uint8_t> tiling;
    for (uint32_t i = 0; i < bound->launch.count; ++i) {
        pyasc_sim_argument& argument = arguments[i];
        if (argument.global && bound->sources[i] >= 0)
            argument.address = static_cast<uint8_t*>(pointers[bound->sources[i]]) - bound->offsets[i];
        if (!argument.global && bound->scalar_count) {
            const auto* bytes = static_cast<const uint8_t*>(argument.address);
            tiling.assign(bytes, bytes + argument.bytes);
            for (uint32_t s = 0; s < bound->scalar_count; ++s)
                std::memcpy(tiling.data() + bound->scalars[s].offset, &scalars[bound->scalars[s].scalar],
                            bound->scalars[s].bytes);
            argument.address = tiling.data();
        }
    }
    pyasc_sim_launch description = bound->launch;
    description.arguments = arguments.data();
    std::vector<std::unique_ptr<void, Free>> scratch;
    for (pyasc_sim_argument& argument : arguments)
        if (argument.global && !argument.address && argument.bytes) {  // memory of the launch's own
            scratch.emplace_back(std::calloc(1, argument.bytes));
            argument.address = scratch.back().get();
        }
    pyasc_sim_run run;
    prepare(run, description);
    carry_out(run);
    const sim::Finding& finding = run.launch.finding;
    const bool stopped = run.launch.failed.load() < 0;
    if (finding.kind == sim::Kind::None && !stopped) return;
    const std::lock_guard lock(messages_mutex);
    if (messages.size() == messages_limit) messages.erase(messages.begin());
    static int64_t number = 0;
    sim::Finding kept = finding;
    if (stopped && finding.kind == sim::Kind::None) kept.kind = sim::Kind::Stopped;
    kept.core = static_cast<int32_t>(number);
    messages.push_back(std::move(kept));
    if (!status[0]) {
        status[0] = first_code + static_cast<int64_t>(messages.back().kind);
        status[1] = number;
    }
    ++number;
}

int pyasc_sim_message(int64_t number, char* message, uint64_t size, int32_t* line) {
    const std::lock_guard lock(messages_mutex);
    for (const sim::Finding& finding : messages)
        if (finding.core == number) {
            std::snprintf(message, size, "%s", finding.message.c_str());
            *line = finding.line;
            return static_cast<int>(finding.kind);
        }
    return 0;
}

}  // extern "C"
