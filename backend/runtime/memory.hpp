// What a buffer, or a slot of a program, holds: contents in memory of the host, of a device, or the same in
// both.
//
// Everything here is called with the interpreter's lock, which guards the fields. What waits, or copies much,
// gives the lock away meanwhile and looks again afterwards. Throws npu::Failure and OutOfMemory, both of the
// device.
#pragma once

#include <Python.h>

#include <memory>
#include <vector>

#include "device.hpp"
#include "pool.hpp"

namespace pyasc {

struct DeviceSide {
    DeviceSide();
    ~DeviceSide();
    DeviceSide(const DeviceSide&) = delete;
    DeviceSide& operator=(const DeviceSide&) = delete;

    npu::Device* device = nullptr;
    int number = -1;            // of the device, also when it is gone
    npu::DeviceBlock block;     // uses are kept up to date
    npu::Ticket written;        // the last work that wrote the block
    uint64_t run = 0;           // in which that was; 0: none, a copy of what the host had
    npu::PinnedBlock pinned;    // the host's memory, where a download left it
    npu::PinnedBlock target;    // where a download goes
    npu::Ticket coming;         // that download
    npu::Ticket leaving;        // an upload from `pinned`, which must not be written before
    PyObject* owner = nullptr;  // of memory of another library
    bool valid = false;         // the device has the contents
    bool on_host = true;        // the host has
    bool committed = false;
    bool exported = false;  // another library may know the address on the device
    int busy = 0;           // not to be evicted
    // Why neither side has contents, where that is so.
    std::shared_ptr<const npu::Failure> lost;
    DeviceSide* previous;  // all there are
    DeviceSide* next;
};

struct Memory {
    char* address = nullptr;  // of the host's memory; null: none
    Py_ssize_t nbytes = 0;
    Block block;  // of the host's memory what goes back to the pool
    std::unique_ptr<DeviceSide> side;
};

// Memories that nothing else makes room of for as long as this is there.
class Held {
  public:
    ~Held() {
        for (Memory* memory : memories_) --memory->side->busy;
    }
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    void add(Memory& memory) {
        if (!memory.side) memory.side = std::make_unique<DeviceSide>();
        memories_.push_back(&memory);
        ++memory.side->busy;
    }

  private:
    std::vector<Memory*> memories_;
};

// The device that has the contents, or null.
npu::Device* device_of(const Memory& memory);
inline bool on_host(const Memory& memory) { return !memory.side || memory.side->on_host; }
inline bool is_on(const Memory& memory, const npu::Device& device) { return device_of(memory) == &device; }

// Gives both sides back without waiting.
void release(Memory& memory) noexcept;

// Memory of a device without contents. Copies there of what the host has too make room where need be.
npu::DeviceBlock allocate_on(npu::Device& device, size_t nbytes, npu::Lane lane);
void begin_on(Memory& memory, size_t nbytes, npu::Device& device, npu::Lane lane);
// Has the contents on a device too. Begins the copy, does not wait.
void upload(Memory& memory, npu::Device& device);
// Begins the copy to the host, for `fetch` to wait for.
void begin_download(Memory& memory);
// Has the contents on the host, to be read and written there. Signals are let through where asked for.
void fetch(Memory& memory, bool signals);
// The host's memory, or the device's, was written: the other's contents are no longer the same. `stays`:
// others look at the host's memory, which therefore is kept, and given the contents when they are fetched.
void host_written(Memory& memory);
void device_written(Memory& memory, bool stays);
// The contents of `from` also in `to`, which has nothing yet: on a device, or, where null, on the host. Does
// not wait.
void copy(Memory& to, Memory& from, npu::Device* device);

// Memory of a device that another library holds, kept alive by `owner`, of which a reference is taken over.
// What was put into the stream of the compute lane before wrote it.
void adopt(Memory& memory, void* address, size_t nbytes, npu::Device& device, PyObject* owner);

// Blocks, without the interpreter's lock.
void wait_for(npu::Device& device, npu::Ticket ticket, bool signals);
void wait_for_all(npu::Device& device, bool signals);

// A new number for work that is launched together, as Failure::launches has it, and the inputs of that work.
uint64_t next_run();
void note_input(uint64_t run, const Memory& input);
// Launches failed: what their runs wrote, and what was computed from that, is lost. Where a failure names
// none, what is not known to be through is.
void lose_written(npu::Device& device, const npu::Failure& failure);
// The lanes are given up: what is not through is lost too.
void lose_unfinished(npu::Device& device, const npu::Uses& through, const npu::Failure& failure);
// A device, or with null every one, is about to lose its memory.
void lose_all(npu::Device* device, const npu::Failure& failure);

}  // namespace pyasc
