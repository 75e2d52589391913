// What Python calls, and the executor: a C interface.
#include "sim/interface.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "engine.hpp"

namespace {

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
                launch.buffers.push_back(
                    {static_cast<uint8_t*>(argument.address), argument.bytes, static_cast<int32_t>(i)});
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

}  // namespace

extern "C" {

pyasc_sim_run* pyasc_sim_start(const pyasc_sim_launch* description) {
    auto run = std::make_unique<pyasc_sim_run>();
    prepare(*run, *description);
    run->thread = std::thread([state = run.get()] {
        state->launch.run();
        const std::lock_guard lock(state->mutex);
        state->done = true;
        state->changed.notify_all();
    });
    return run.release();
}

int pyasc_sim_wait(pyasc_sim_run* run, uint32_t milliseconds) {
    std::unique_lock lock(run->mutex);
    return run->changed.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] { return run->done; })
               ? 1
               : 0;
}

void pyasc_sim_stop(pyasc_sim_run* run) {
    const std::lock_guard lock(run->launch.mutex);
    run->launch.failed = -1;
    run->launch.changed.notify_all();
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
    if (finding.kind == sim::Kind::None && run->launch.failed.load() < 0)
        return static_cast<int>(sim::Kind::Stopped);
    return static_cast<int>(finding.kind);
}

uint32_t pyasc_sim_cores(const pyasc_sim_run* run) { return static_cast<uint32_t>(run->launch.cores()); }

const void* pyasc_sim_log(const pyasc_sim_run* run, uint32_t core, uint64_t* count) {
    const auto& finished = run->launch.finished;
    if (core >= finished.size() || !finished[core]) {
        *count = 0;
        return nullptr;
    }
    *count = finished[core]->log.count();
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

}  // extern "C"
