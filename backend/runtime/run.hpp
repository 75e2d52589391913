// One run of a program: what its slots hold, and its steps one after another.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "executor.hpp"

namespace pyasc {

// A few in place, many on the heap.
template <class T, size_t N>
class Inline {
  public:
    explicit Inline(size_t count)
        : count_(count), heap_(count > N ? std::make_unique<T[]>(count) : nullptr), data_(heap_.get()) {
        if (heap_) return;
        data_ = reinterpret_cast<T*>(local_);
        for (size_t k = 0; k < count_; ++k) new (data_ + k) T;
    }
    ~Inline() {
        if (heap_) return;
        for (size_t k = 0; k < count_; ++k) data_[k].~T();
    }
    Inline(const Inline&) = delete;
    Inline& operator=(const Inline&) = delete;
    T* data() { return data_; }
    T& operator[](size_t k) { return data_[k]; }
    const T& operator[](size_t k) const { return data_[k]; }

  private:
    const size_t count_;
    alignas(T) unsigned char local_[N * sizeof(T)];
    std::unique_ptr<T[]> heap_;
    T* data_;
};

// The interpreter's lock, handed over while there is work without Python.
class Interpreter {
  public:
    ~Interpreter() { acquire(); }
    void release() {
        if (!saved_) saved_ = PyEval_SaveThread();
    }
    void acquire() {
        if (saved_) PyEval_RestoreThread(std::exchange(saved_, nullptr));
    }

  private:
    PyThreadState* saved_ = nullptr;
};

class Program::Run {
  public:
    Run(const Program& program, PyObject* leaves, const char* scalars, uint64_t number, bool timed,
        const std::vector<std::string>& marks);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    void steps();
    Buffer* output(uint32_t root) { return slots_[root].buffer; }
    // Appends (kind, bytes, start, end) for each step that was begun.
    void report(pybind11::list log, bool failed);

  private:
    struct Time {
        const char* kind;
        size_t nbytes;
        int64_t start;
        int64_t end;
        bool on_device;
        npu::Device::Span span;
    };

    struct Slot {
        Memory own;                // where there is no buffer
        Buffer* buffer = nullptr;  // of inputs, outputs and what a call has seen
    };

    Memory& memory(uint32_t slot) {
        return slots_[slot].buffer ? slots_[slot].buffer->memory : slots_[slot].own;
    }
    bool stays(uint32_t slot) const { return slots_[slot].buffer && slots_[slot].buffer->stays(); }

    // Each gives whether it took long enough to look at signals.
    bool run(const step::Allocate& step);
    bool run(const step::Free& step);
    bool run(const step::Launch& launch);
    bool run(const step::StridedCopy& step);
    bool run(const step::Call& step);
    bool run(const step::DeviceAllocate& step);
    bool run(const step::Upload& step);
    bool run(const step::Download& step);
    bool run(const step::Written& step);
    bool run(const step::DeviceLaunch& launch);
    bool run(const std::unique_ptr<step::DeviceLaunch>& launch) { return run(*launch); }

    // Has the contents of a slot in the host's memory.
    void look(uint32_t slot) {
        const DeviceSide* side = memory(slot).side.get();
        if (side && (!side->on_host || side->leaving.number)) fetch_for_step(memory(slot));
    }
    void fetch_for_step(Memory& memory);
    [[noreturn]] void raise_fault(int64_t label, int64_t code, int64_t value);
    void check_signals();
    bool may_stop() const { return at_ < program_.donation_; }

    // --- devices
    void open();
    // Puts what a lane does from now on after a piece of work.
    void after(npu::Lane lane, npu::Ticket ticket) {
        if (ticket.lane == lane || !ticket.number) return;
        uint64_t& known = ordered_[npu::index_of(lane)][npu::index_of(ticket.lane)];
        if (ticket.number <= known) return;
        device_->order(lane, ticket);
        known = ticket.number;
    }
    void begin_copy_back(Memory& memory);
    void fill(char* block, const step::DeviceLaunch& launch);
    void begin_status(npu::Lane lane);
    void check_status();
    void mark_outputs();
    void begin_time(const char* kind, size_t nbytes, npu::Lane lane);
    void end_time(npu::Lane lane);
    void release_device() noexcept;

    const Program& program_;
    const size_t count_;
    Inline<Slot, 32> slots_;
    const char* scalars_;
    const uint64_t number_;
    const bool timed_;
    const std::vector<std::string>& marks_;
    size_t work_ = 0;  // launches and calls so far
    size_t at_ = 0;    // the step
    std::vector<Time> times_;
    Interpreter interpreter_;
    std::chrono::steady_clock::time_point checked_ = std::chrono::steady_clock::now();

    npu::Device* device_ = nullptr;
    std::array<npu::Uses, npu::lanes> ordered_{};
    npu::DeviceBlock status_;  // of all launches that report faults
    npu::Ticket cleared_;
    bool committed_ = false;  // whether an input was put on the device
};

}  // namespace pyasc
