#include "executor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "run.hpp"

namespace py = pybind11;

namespace pyasc {

Program::Program(uint32_t inputs, uint32_t slots, const std::vector<uint32_t>& outputs)
    : inputs_(inputs),
      outputs_(outputs),
      roots_(slots, nothing),
      names_(slots, 0),
      is_output_(slots, false),
      donation_(SIZE_MAX),
      awaiting_first_use_(slots, SIZE_MAX) {
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

void Program::begin(uint32_t slot, const char* operation, Step step) {
    if (slot >= roots_.size() || names_[slot] || roots_[slot] != nothing)
        throw std::invalid_argument(std::string("[") + operation +
                                    "] expected a slot that has not been used, given " +
                                    std::to_string(slot));
    add(std::move(step));
    roots_[slot] = slot;
    names_[slot] = 1;
}

void Program::allocate(uint32_t slot, size_t nbytes) {
    begin(slot, "allocate", step::Allocate{slot, nbytes});
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

void Program::use_device(int device, const char* operation) {
    if (device < 0 || (device_ >= 0 && device != device_))
        throw std::invalid_argument(std::string("[") + operation +
                                    "] expected one device for all steps, given " + std::to_string(device));
    device_ = device;
}

void Program::device_allocate(uint32_t slot, size_t nbytes, int device) {
    use_device(device, "device_allocate");
    begin(slot, "device_allocate", step::DeviceAllocate{slot, nbytes, npu::Lane::compute});
    awaiting_first_use_[slot] = steps_.size() - 1;
}

void Program::upload(uint32_t slot, int device) {
    use_device(device, "upload");
    add(step::Upload{root(slot, "upload")});
}

void Program::download(uint32_t slot) { add(step::Download{root(slot, "download")}); }

void Program::written(uint32_t slot, int device) {
    if (device >= 0) use_device(device, "written");
    add(step::Written{root(slot, "written"), device < 0});
}

void Program::device_launch(py::object code, int device, int lane, uint32_t blocks, py::bytes arguments,
                            const std::vector<std::tuple<uint32_t, uint32_t, int64_t>>& pointers,
                            const std::vector<std::tuple<uint32_t, uint32_t, uint32_t, std::string>>& patches,
                            const std::vector<uint32_t>& outputs,
                            std::optional<std::pair<uint32_t, size_t>> workspace, int64_t status,
                            int64_t label) {
    use_device(device, "device_launch");
    if (lane < 0 || lane > 1 || blocks < 1)
        throw std::invalid_argument("[device_launch] expected lane 0 or 1 and a block or more");
    step::DeviceLaunch launch{code,
                              &code.cast<DeviceCode&>(),
                              static_cast<npu::Lane>(lane),
                              blocks,
                              arguments,
                              {},
                              {},
                              {},
                              workspace,
                              status,
                              status_bytes_,
                              label};
    const auto need = [&](size_t at, size_t nbytes) {
        if (at + nbytes > launch.arguments.size())
            throw std::invalid_argument("[device_launch] expected places in a block of " +
                                        std::to_string(launch.arguments.size()) + " bytes, given " +
                                        std::to_string(at));
    };
    const auto operand = [&](uint32_t slot) -> step::DeviceLaunch::Operand& {
        for (auto& found : launch.operands)
            if (found.slot == slot) return found;
        return launch.operands.emplace_back(step::DeviceLaunch::Operand{slot, false});
    };
    for (const auto& [at, slot, offset] : pointers) {
        need(at, 8);
        const uint32_t shared = root(slot, "device_launch");
        operand(shared);
        launch.pointers.push_back({at, shared, offset});
    }
    for (const uint32_t slot : outputs) operand(root(slot, "device_launch")).written = true;
    std::vector<uint32_t> scalars;
    for (const auto& [at, size, scalar, form] : patches) {
        need(at, size);
        launch.patches.emplace_back(at, size, scalar, form);
        scalars.push_back(scalar);
    }
    need_scalars(scalars);
    if (workspace) need(workspace->first, 8);
    if (status >= 0) {
        need(static_cast<size_t>(status), 8);
        status_bytes_ += blocks * step::DeviceLaunch::status_words * sizeof(int64_t);
    }
    for (const auto& found : launch.operands) {
        const size_t first = std::exchange(awaiting_first_use_[found.slot], SIZE_MAX);
        if (first != SIZE_MAX) std::get<step::DeviceAllocate>(steps_[first]).lane = launch.lane;
    }
    add(std::make_unique<step::DeviceLaunch>(std::move(launch)));
}

py::object Program::run(py::handle leaves, py::bytes scalars, py::handle receivers, py::handle log,
                        const std::vector<std::string>& marks) {
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
    if (device_steps()) last_run_ = next_run();
    Run run(*this, fast.ptr(), PyBytes_AS_STRING(scalars.ptr()), last_run_, timed, marks);
    try {
        run.steps();
    } catch (py::error_already_set&) {
        if (timed) run.report(py::reinterpret_borrow<py::list>(log), true);
        throw;
    }
    if (timed) run.report(py::reinterpret_borrow<py::list>(log), false);
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
