#include "executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "threads.hpp"

namespace py = pybind11;

namespace pyasc {

namespace {

// A step that touches less keeps the interpreter's lock: handing it over costs more.
constexpr int64_t worth_releasing = int64_t{64} << 10;
// Of the steps, in the order of the variant.
constexpr const char* kind_names[] = {"allocate", "free", "launch", "copy", "call"};
constexpr auto signal_interval = std::chrono::milliseconds(20);

PyObject* memory_error = nullptr;
PyObject* fault_handler = nullptr;

using Clock = std::chrono::steady_clock;

// A few in place, many on the heap.
template <class T, size_t N>
class Inline {
  public:
    explicit Inline(size_t count) : heap_(count > N ? std::make_unique<T[]>(count) : nullptr) {}
    T* data() { return heap_ ? heap_.get() : local_; }
    T& operator[](size_t k) { return data()[k]; }

  private:
    T local_[N];
    std::unique_ptr<T[]> heap_;
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

struct Task {
    Kernel function;
    void* const* pointers;
    const int64_t* integers;
    const uint64_t* scalars;
    char* scratch;
    char* thread_scratch;
    size_t thread_bytes;
    std::mutex mutex;
    Fault fault;
};

void run_chunk(void* context, int64_t begin, int64_t end, int thread) {
    Task& task = *static_cast<Task*>(context);
    int64_t status[2] = {0, 0};
    task.function(task.pointers, task.integers, task.scalars, begin, end, task.scratch,
                  task.thread_scratch + static_cast<size_t>(thread) * task.thread_bytes, status);
    if (status[0] == 0) return;
    const std::lock_guard<std::mutex> lock(task.mutex);
    if (task.fault.begin < 0 || begin < task.fault.begin) task.fault = {begin, status[0], status[1]};
}

std::string readable(size_t nbytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = static_cast<double>(nbytes);
    int unit = 0;
    for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

}  // namespace

py::object set_fault_handler(py::object handler) {
    if (handler.is_none()) handler = py::object();
    py::object replaced =
        py::reinterpret_steal<py::object>(std::exchange(fault_handler, handler.release().ptr()));
    return replaced ? replaced : py::none();
}

void set_memory_error(py::object type) {
    if (!PyExceptionClass_Check(type.ptr())) throw py::type_error("[set_errors] expected an exception class");
    py::object replaced =
        py::reinterpret_steal<py::object>(std::exchange(memory_error, type.release().ptr()));
}

void raise_memory_error(const OutOfMemory& error) {
    const std::string limit = error.stats.limit ? readable(error.stats.limit) : "none";
    const std::string text = "[allocate] " + readable(error.asked) + " (" + std::to_string(error.asked) +
                             " bytes) asked, given " + readable(error.stats.used) + " in use, " +
                             readable(error.stats.cached) + " cached, limit " + limit;
    PyErr_SetString(memory_error ? memory_error : PyExc_MemoryError, text.c_str());
    throw py::error_already_set();
}

class Program::Run {
  public:
    Run(const Program& program, PyObject* leaves, const char* scalars, bool timed)
        : program_(program), count_(program.roots_.size()), slots_(count_), scalars_(scalars), timed_(timed) {
        for (uint32_t k = 0; k < program.inputs_; ++k) {
            Buffer* buffer = reinterpret_cast<Buffer*>(Py_NewRef(PySequence_Fast_GET_ITEM(leaves, k)));
            slots_[k] = {buffer->address, buffer->nbytes, buffer, {}};
        }
    }

    ~Run() {
        interpreter_.acquire();
        for (size_t k = 0; k < count_; ++k) {
            Py_XDECREF(reinterpret_cast<PyObject*>(slots_[k].buffer));
            if (slots_[k].block.address) Pool::instance().release(slots_[k].block);
        }
    }

    void steps() {
        // Outputs get their objects now, while the interpreter's lock is held; the memory comes when its step
        // does.
        for (const uint32_t root : program_.output_roots_)
            if (!slots_[root].buffer && !(slots_[root].buffer = new_buffer())) throw py::error_already_set();
        for (size_t k = 0; k < program_.steps_.size(); ++k) {
            if (timed_) times_.push_back({k, now(), -1});
            const bool heavy = std::visit([this](const auto& step) { return run(step); }, program_.steps_[k]);
            if (timed_) times_.back().end = now();
            // Once a donated input is written, stopping halfway would lose it.
            if (heavy && k < program_.donation_) check_signals();
        }
        interpreter_.acquire();
    }

    Buffer* output(uint32_t root) { return slots_[root].buffer; }

    // Appends (kind, bytes, start, end) for each step that was begun and is no Free.
    void report(py::list log) {
        interpreter_.acquire();
        for (const Time& time : times_) {
            const Step& step = program_.steps_[time.step];
            size_t nbytes = 0;
            if (const auto* allocation = std::get_if<step::Allocate>(&step)) nbytes = allocation->nbytes;
            if (const auto* copied = std::get_if<step::StridedCopy>(&step))
                nbytes = static_cast<size_t>(copied->copy.nbytes());
            if (!std::holds_alternative<step::Free>(step))
                log.append(py::make_tuple(kind_names[step.index()], nbytes, time.start,
                                          time.end < 0 ? now() : time.end));
        }
        times_.clear();
    }

  private:
    struct Time {
        size_t step;
        int64_t start;
        int64_t end;
    };

    // As Python's time.perf_counter_ns has it.
    static int64_t now() {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
    }

    struct Slot {
        char* address = nullptr;
        Py_ssize_t nbytes = 0;
        Buffer* buffer = nullptr;  // of inputs, outputs and what a call has seen
        Block block;               // of everything else
    };

    bool run(const step::Allocate& step) {
        Slot& slot = slots_[step.slot];
        Block block;
        try {
            block = Pool::instance().allocate(step.nbytes);
        } catch (const OutOfMemory& error) {
            interpreter_.acquire();
            raise_memory_error(error);
        }
        slot.address = static_cast<char*>(block.address);
        slot.nbytes = static_cast<Py_ssize_t>(step.nbytes);
        if (slot.buffer)
            give(slot.buffer, slot, block);
        else
            slot.block = block;
        return false;
    }

    bool run(const step::Free& step) {
        Slot& slot = slots_[step.slot];
        if (slot.buffer) {
            interpreter_.acquire();
            Py_CLEAR(slot.buffer);
        } else {
            Pool::instance().release(std::exchange(slot.block, {}));
        }
        return false;
    }

    bool run(const step::Launch& launch) {
        Inline<void*, 64> pointers(launch.pointers.size());
        int64_t touched = 0;
        for (size_t k = 0; k < launch.pointers.size(); ++k) {
            const Slot& slot = slots_[launch.pointers[k].slot];
            pointers[k] = slot.address + launch.pointers[k].offset;
            touched += slot.nbytes;
        }
        Inline<uint64_t, 32> scalars(launch.scalars.size());
        for (size_t k = 0; k < launch.scalars.size(); ++k)
            std::memcpy(&scalars[k], scalars_ + size_t{8} * launch.scalars[k], 8);
        bool heavy = touched > worth_releasing;
        bool parallel = false;
        for (const step::Launch::Phase& phase : launch.phases)
            parallel = parallel || phase.units > phase.grain;
        heavy = heavy || parallel;
        if (heavy) interpreter_.release();
        const size_t thread_bytes = (launch.thread_scratch + 127) / 128 * 128;
        try {
            const ScopedBlock scratch(launch.scratch);
            const ScopedBlock own(thread_bytes *
                                  static_cast<size_t>(parallel ? Threads::instance().count() : 1));
            Task task{nullptr,
                      pointers.data(),
                      launch.integers.data(),
                      scalars.data(),
                      scratch.address(),
                      own.address(),
                      thread_bytes,
                      {},
                      {}};
            for (const step::Launch::Phase& phase : launch.phases) {
                task.function = phase.function;
                Threads::instance().run(phase.units, phase.grain, run_chunk, &task);
                if (task.fault.begin >= 0) raise_fault(launch, task.fault);
            }
        } catch (const OutOfMemory& error) {
            interpreter_.acquire();
            raise_memory_error(error);
        }
        return heavy;
    }

    bool run(const step::StridedCopy& step) {
        const bool heavy = step.copy.nbytes() > worth_releasing;
        if (heavy) interpreter_.release();
        step.copy.run(slots_[step.target].address + step.target_offset,
                      slots_[step.source].address + step.source_offset);
        return heavy;
    }

    bool run(const step::Call& step) {
        interpreter_.acquire();
        py::list buffers(step.slots.size()), scalars(step.scalars.size());
        for (size_t k = 0; k < step.slots.size(); ++k) {
            Slot& slot = slots_[step.slots[k]];
            if (!slot.buffer) {
                slot.buffer = new_buffer();
                if (!slot.buffer) throw py::error_already_set();
                give(slot.buffer, slot, std::exchange(slot.block, {}));
            }
            PyList_SET_ITEM(buffers.ptr(), static_cast<Py_ssize_t>(k), Py_NewRef(as_object(slot.buffer)));
        }
        for (size_t k = 0; k < step.scalars.size(); ++k) {
            uint64_t bits;
            std::memcpy(&bits, scalars_ + size_t{8} * step.scalars[k], 8);
            PyList_SET_ITEM(scalars.ptr(), static_cast<Py_ssize_t>(k), PyLong_FromUnsignedLongLong(bits));
        }
        step.function(buffers, scalars);
        return true;
    }

    static void give(Buffer* buffer, const Slot& slot, Block block) {
        buffer->address = slot.address;
        buffer->nbytes = slot.nbytes;
        buffer->block = block;
    }

    [[noreturn]] void raise_fault(const step::Launch& launch, const Fault& fault) {
        interpreter_.acquire();
        if (!fault_handler)
            throw std::runtime_error("[run] a kernel reported fault " + std::to_string(fault.code));
        const py::object error = py::handle(fault_handler)(launch.label, fault.code, fault.value);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
        throw py::error_already_set();
    }

    void check_signals() {
        const Clock::time_point now = Clock::now();
        if (now - checked_ < signal_interval) return;
        interpreter_.acquire();
        if (PyErr_CheckSignals() < 0) throw py::error_already_set();
        checked_ = Clock::now();
    }

    const Program& program_;
    const size_t count_;
    Inline<Slot, 32> slots_;
    const char* scalars_;
    const bool timed_;
    std::vector<Time> times_;
    Interpreter interpreter_;
    Clock::time_point checked_ = Clock::now();
};

Program::Program(uint32_t inputs, uint32_t slots, const std::vector<uint32_t>& outputs)
    : inputs_(inputs),
      outputs_(outputs),
      roots_(slots, nothing),
      names_(slots, 0),
      is_output_(slots, false),
      donation_(SIZE_MAX) {
    if (inputs > slots) throw std::invalid_argument("[Program] expected at least as many slots as inputs");
    for (const uint32_t slot : outputs) {
        if (slot >= slots) throw std::invalid_argument("[Program] expected outputs among the slots");
        is_output_[slot] = true;
    }
    for (uint32_t k = 0; k < inputs; ++k) {
        roots_[k] = k;
        names_[k] = 1;
    }
}

uint32_t Program::root(uint32_t slot, const char* operation) const {
    if (slot >= roots_.size() || roots_[slot] == nothing)
        throw std::invalid_argument(std::string("[") + operation +
                                    "] expected a slot that holds a buffer, given " + std::to_string(slot));
    return roots_[slot];
}

void Program::add(Step step) {
    if (started_) throw std::invalid_argument("[Program] expected no more steps after the first run");
    steps_.push_back(std::move(step));
}

void Program::need_scalars(const std::vector<uint32_t>& indices) {
    for (const uint32_t index : indices) scalars_ = std::max(scalars_, size_t{index} + 1);
}

void Program::allocate(uint32_t slot, size_t nbytes) {
    if (slot >= roots_.size() || names_[slot] || roots_[slot] != nothing)
        throw std::invalid_argument("[allocate] expected a slot that has not been used, given " +
                                    std::to_string(slot));
    add(step::Allocate{slot, nbytes});
    roots_[slot] = slot;
    names_[slot] = 1;
}

void Program::alias(uint32_t slot, uint32_t source) {
    const uint32_t shared = root(source, "alias");
    if (slot >= roots_.size() || roots_[slot] != nothing)
        throw std::invalid_argument("[alias] expected a slot that has not been used, given " +
                                    std::to_string(slot));
    roots_[slot] = shared;
    ++names_[shared];
    if (shared < inputs_) donation_ = std::min(donation_, steps_.size());
}

void Program::free(uint32_t slot) {
    const uint32_t shared = root(slot, "free");
    if (is_output_[slot])
        throw std::invalid_argument("[free] slot " + std::to_string(slot) + " is an output");
    roots_[slot] = nothing;
    if (--names_[shared] == 0 && shared >= inputs_) add(step::Free{shared});
}

void Program::launch(const std::vector<std::tuple<uintptr_t, int64_t, int64_t>>& phases,
                     const std::vector<std::pair<uint32_t, int64_t>>& pointers, std::vector<int64_t> integers,
                     std::vector<uint32_t> scalars, size_t scratch, size_t thread_scratch, int64_t label) {
    step::Launch launch{{}, {}, std::move(integers), std::move(scalars), scratch, thread_scratch, label};
    for (const auto& [address, units, grain] : phases) {
        if (!address || units < 0 || grain < 1)
            throw std::invalid_argument(
                "[launch] expected phases of a function, units of 0 or more, a grain of 1 or more");
        launch.phases.push_back({reinterpret_cast<Kernel>(address), units, grain});
    }
    for (const auto& [slot, offset] : pointers) launch.pointers.push_back({root(slot, "launch"), offset});
    need_scalars(launch.scalars);
    add(std::move(launch));
}

void Program::copy(uint32_t target, int64_t target_offset, const std::vector<int64_t>& target_strides,
                   uint32_t source, int64_t source_offset, const std::vector<int64_t>& source_strides,
                   const std::vector<int64_t>& extents, int64_t itemsize) {
    add(step::StridedCopy{root(target, "copy"), target_offset, root(source, "copy"), source_offset,
                          Copy(target_strides, source_strides, extents, itemsize)});
}

void Program::call(py::object function, const std::vector<uint32_t>& slots, std::vector<uint32_t> scalars,
                   int64_t) {
    step::Call call{std::move(function), {}, std::move(scalars)};
    for (const uint32_t slot : slots) call.slots.push_back(root(slot, "call"));
    need_scalars(call.scalars);
    add(std::move(call));
}

py::object Program::run(py::handle leaves, py::bytes scalars, py::handle receivers, py::handle log) {
    const py::object fast =
        py::reinterpret_steal<py::object>(PySequence_Fast(leaves.ptr(), "[run] expected a list of leaves"));
    if (!fast) throw py::error_already_set();
    if (PySequence_Fast_GET_SIZE(fast.ptr()) != static_cast<Py_ssize_t>(inputs_))
        throw std::invalid_argument("[run] expected " + std::to_string(inputs_) + " leaves, given " +
                                    std::to_string(PySequence_Fast_GET_SIZE(fast.ptr())));
    for (uint32_t k = 0; k < inputs_; ++k)
        if (!is_buffer(PySequence_Fast_GET_ITEM(fast.ptr(), k)))
            throw py::type_error("[run] expected buffers as leaves");
    if (static_cast<size_t>(PyBytes_GET_SIZE(scalars.ptr())) < scalars_ * 8)
        throw std::invalid_argument("[run] expected 8 bytes for each of " + std::to_string(scalars_) +
                                    " scalars, given " + std::to_string(PyBytes_GET_SIZE(scalars.ptr())));
    if (!started_) {
        for (const uint32_t slot : outputs_) output_roots_.push_back(root(slot, "run"));
        started_ = true;
    }
    const bool timed = !log.is_none();
    Run run(*this, fast.ptr(), PyBytes_AS_STRING(scalars.ptr()), timed);
    try {
        run.steps();
    } catch (py::error_already_set&) {
        if (timed) run.report(py::reinterpret_borrow<py::list>(log));
        throw;
    }
    if (timed) run.report(py::reinterpret_borrow<py::list>(log));
    py::list outputs(output_roots_.size());
    for (size_t k = 0; k < output_roots_.size(); ++k)
        PyList_SET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(k),
                        Py_NewRef(as_object(run.output(output_roots_[k]))));
    if (!receivers.is_none()) {
        // Before control returns to the interpreter, so that no signal comes between a buffer that was
        // written in place and the node that says so.
        static PyObject* const settle = PyUnicode_InternFromString("settle");
        size_t k = 0;
        for (const py::handle receiver : receivers) {
            if (k == output_roots_.size())
                throw std::invalid_argument("[run] expected as many receivers as outputs");
            PyObject* buffer = PyList_GET_ITEM(outputs.ptr(), static_cast<Py_ssize_t>(k++));
            const py::object done =
                py::reinterpret_steal<py::object>(PyObject_CallMethodOneArg(receiver.ptr(), settle, buffer));
            if (!done) throw py::error_already_set();
        }
    }
    return outputs;
}

}  // namespace pyasc
