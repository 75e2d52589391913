// The library's C interface. Plain structs, the same in backend/sim/library.py.
#pragma once

#include <cstdint>

extern "C" {

// One argument of a kernel.
struct pyasc_sim_argument {
    void* address;   // of the buffer in global memory, or of the value
    uint64_t bytes;  // of the buffer or of the value
    int32_t global;  // 1: a buffer in global memory
    int32_t reserved;
};

struct pyasc_sim_launch {
    void (*entry)(void* const* arguments);
    const pyasc_sim_argument* arguments;
    uint32_t count;
    uint32_t blocks;
    uint32_t kind;               // 0: vector cores, 1: cube cores, 2: both
    uint32_t vectors_per_block;  // of a kernel for both
    uint32_t check, cost, move;
    uint32_t threads;        // of the host; 0: one for each processor
    uint32_t capacities[8];  // bytes of each memory, in the order of sim::Space
    uint32_t cube_cores, vector_cores;
};

struct pyasc_sim_run;

// Starts a launch on threads of its own. To be freed; the arrays must live until then.
pyasc_sim_run* pyasc_sim_start(const pyasc_sim_launch* description);
// Whether it is over, after that time at most.
int pyasc_sim_wait(pyasc_sim_run* run, uint32_t milliseconds);
void pyasc_sim_stop(pyasc_sim_run* run);
void pyasc_sim_free(pyasc_sim_run* run);
// sim::Kind, 0 for none.
int pyasc_sim_finding(const pyasc_sim_run* run, const char** message, int32_t* line, int32_t* core);
uint32_t pyasc_sim_cores(const pyasc_sim_run* run);
const void* pyasc_sim_log(const pyasc_sim_run* run, uint32_t core, uint64_t* count);
uint64_t pyasc_sim_names(char* into, uint64_t size);
uint32_t pyasc_sim_record_size(void);
}
