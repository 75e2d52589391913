#include "run.hpp"

#include <chrono>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

#include "failure.hpp"
#include "threads.hpp"

namespace py = pybind11;

namespace pyasc {

namespace {

// A step that touches less keeps the interpreter's lock: handing it over costs more.
constexpr int64_t worth_releasing = int64_t{64} << 10;
// Of the steps on the host that are logged, in the order of the variant; those of a device are logged where
// something is put into a lane.
constexpr const char* kind_names[] = {"allocate", nullptr, "launch", "copy",  "call",
                                      "allocate", nullptr, nullptr,  nullptr, nullptr};
constexpr auto signal_interval = std::chrono::milliseconds(20);

PyObject* fault_handler = nullptr;

using Clock = std::chrono::steady_clock;

// As Python's time.perf_counter_ns has it.
int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

size_t nbytes_of(const Step& step) {
    if (const auto* allocation = std::get_if<step::Allocate>(&step)) return allocation->nbytes;
    if (const auto* allocation = std::get_if<step::DeviceAllocate>(&step)) return allocation->nbytes;
    if (const auto* copied = std::get_if<step::StridedCopy>(&step))
        return static_cast<size_t>(copied->copy.nbytes());
    return 0;
}

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

}  // namespace

py::object set_fault_handler(py::object handler) {
    if (handler.is_none()) handler = py::object();
    py::object replaced =
        py::reinterpret_steal<py::object>(std::exchange(fault_handler, handler.release().ptr()));
    return replaced ? replaced : py::none();
}

Program::Run::Run(const Program& program, PyObject* leaves, const char* scalars, uint64_t number, bool timed,
                  const std::vector<std::string>& marks)
    : program_(program),
      count_(program.roots_.size()),
      slots_(count_),
      scalars_(scalars),
      number_(number),
      timed_(timed),
      marks_(marks) {
    for (uint32_t k = 0; k < program.inputs_; ++k)
        slots_[k].buffer = reinterpret_cast<Buffer*>(Py_NewRef(PySequence_Fast_GET_ITEM(leaves, k)));
}

Program::Run::~Run() {
    interpreter_.acquire();
    release_device();
    for (size_t k = 0; k < count_; ++k) {
        Py_XDECREF(reinterpret_cast<PyObject*>(slots_[k].buffer));
        Memory& own = slots_[k].own;
        if (own.address || own.side) release(own);
    }
}

void Program::Run::steps() {
    try {
        if (program_.device_steps()) open();
        // Outputs get their objects now, while the interpreter's lock is held; the memory comes when its step
        // does.
        for (const uint32_t root : program_.output_roots_)
            if (!slots_[root].buffer && !(slots_[root].buffer = new_buffer())) throw py::error_already_set();
        for (at_ = 0; at_ < program_.steps_.size(); ++at_) {
            const Step& step = program_.steps_[at_];
            const char* const kind = timed_ ? kind_names[step.index()] : nullptr;
            const size_t time = times_.size();
            if (kind) times_.push_back({kind, nbytes_of(step), now(), -1, false, {}});
            const bool heavy = std::visit([this](const auto& each) { return run(each); }, step);
            if (kind) times_[time].end = now();
            // Once a donated input is written, stopping halfway would lose it.
            if (heavy && may_stop()) check_signals();
        }
        interpreter_.acquire();
        if (status_.address) check_status();
        if (device_) mark_outputs();
        if (timed_ && device_) wait_for_all(*device_, may_stop());
    } catch (const npu::Failure& failure) {
        interpreter_.acquire();
        raise_failure(failure, program_.device_);
    } catch (const OutOfMemory& error) {
        interpreter_.acquire();
        raise_memory_error(error, program_.device_);
    }
}

void Program::Run::report(py::list log, bool failed) {
    interpreter_.acquire();
    for (Time& time : times_) {
        if (time.on_device) {
            std::optional<std::pair<int64_t, int64_t>> found;
            try {
                // What failed, or was interrupted, is not waited for.
                if (time.end >= 0) found = device_->time(time.span, failed ? 0 : 1000);
            } catch (const npu::Failure&) {  // raised already; what is left is when it was put into the lane
            }
            if (found)
                std::tie(time.start, time.end) = *found;
            else
                device_->drop(time.span);
        }
        log.append(py::make_tuple(time.kind, time.nbytes, time.start, time.end < 0 ? now() : time.end));
    }
    times_.clear();
}

bool Program::Run::run(const step::Allocate& step) {
    Memory& memory = this->memory(step.slot);
    try {
        memory.block = Pool::instance().allocate(step.nbytes);
    } catch (const OutOfMemory& error) {
        interpreter_.acquire();
        raise_memory_error(error);
    }
    memory.address = static_cast<char*>(memory.block.address);
    memory.nbytes = static_cast<Py_ssize_t>(step.nbytes);
    return false;
}

bool Program::Run::run(const step::Free& step) {
    Slot& slot = slots_[step.slot];
    if (slot.buffer) {
        interpreter_.acquire();
        Py_CLEAR(slot.buffer);
    } else {
        if (slot.own.side) interpreter_.acquire();
        release(slot.own);
    }
    return false;
}

bool Program::Run::run(const step::Launch& launch) {
    ++work_;
    Inline<void*, 64> pointers(launch.pointers.size());
    int64_t touched = 0;
    for (const step::Launch::Pointer& pointer : launch.pointers) look(pointer.slot);
    for (size_t k = 0; k < launch.pointers.size(); ++k) {
        const Memory& memory = this->memory(launch.pointers[k].slot);
        pointers[k] = memory.address + launch.pointers[k].offset;
        touched += memory.nbytes;
    }
    Inline<uint64_t, 32> scalars(launch.scalars.size());
    for (size_t k = 0; k < launch.scalars.size(); ++k)
        std::memcpy(&scalars[k], scalars_ + size_t{8} * launch.scalars[k], 8);
    bool heavy = touched > worth_releasing;
    bool parallel = false;
    for (const step::Launch::Phase& phase : launch.phases) parallel = parallel || phase.units > phase.grain;
    heavy = heavy || parallel;
    if (heavy) interpreter_.release();
    const size_t thread_bytes = (launch.thread_scratch + 127) / 128 * 128;
    try {
        const ScopedBlock scratch(launch.scratch);
        const ScopedBlock own(thread_bytes * static_cast<size_t>(parallel ? Threads::instance().count() : 1));
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
            if (task.fault.begin >= 0) raise_fault(launch.label, task.fault.code, task.fault.value);
        }
    } catch (const OutOfMemory& error) {
        interpreter_.acquire();
        raise_memory_error(error);
    }
    return heavy;
}

bool Program::Run::run(const step::StridedCopy& step) {
    look(step.source);
    look(step.target);
    const bool heavy = step.copy.nbytes() > worth_releasing;
    if (heavy) interpreter_.release();
    step.copy.run(memory(step.target).address + step.target_offset,
                  memory(step.source).address + step.source_offset);
    return heavy;
}

bool Program::Run::run(const step::Call& step) {
    ++work_;
    interpreter_.acquire();
    py::list buffers(step.slots.size()), scalars(step.scalars.size());
    for (size_t k = 0; k < step.slots.size(); ++k) {
        Slot& slot = slots_[step.slots[k]];
        look(step.slots[k]);
        if (!slot.buffer) {
            slot.buffer = new_buffer();
            if (!slot.buffer) throw py::error_already_set();
            slot.buffer->memory = std::exchange(slot.own, {});
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

void Program::Run::raise_fault(int64_t label, int64_t code, int64_t value) {
    interpreter_.acquire();
    if (!fault_handler) throw std::runtime_error("[run] a kernel reported fault " + std::to_string(code));
    const py::object error = py::handle(fault_handler)(label, code, value);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw py::error_already_set();
}

void Program::Run::check_signals() {
    if (Clock::now() - checked_ < signal_interval) return;
    interpreter_.acquire();
    if (PyErr_CheckSignals() < 0) throw py::error_already_set();
    checked_ = Clock::now();
}

}  // namespace pyasc
