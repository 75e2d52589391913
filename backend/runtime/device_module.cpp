#include "device_module.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "acl.hpp"
#include "buffer.hpp"
#include "device_code.hpp"
#include "executor.hpp"
#include "failure.hpp"
#include "marks.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace pyasc {

namespace {

using npu::Device;
using npu::Lane;
using npu::Ticket;

Device& open(int number) {
    return on_device(number, [&]() -> Device& { return Device::open(number); });
}

py::dict device_stats(int number) {
    npu::DeviceStats stats;
    if (Device* device = Device::find(number)) stats = on_device(number, [&] { return device->stats(); });
    return py::dict("used"_a = stats.memory.used, "cached"_a = stats.memory.cached,
                    "peak"_a = stats.memory.peak, "limit"_a = stats.memory.limit, "pinned"_a = stats.pinned,
                    "free"_a = stats.free, "total"_a = stats.total, "events"_a = stats.live_events,
                    "streams"_a = stats.live_streams, "launches"_a = stats.launches,
                    "uploads"_a = stats.uploads, "downloads"_a = stats.downloads);
}

void use_library(const std::string& path) {
    static std::string& chosen = *new std::string;
    if (npu::Acl::loaded() && path != chosen)
        throw py::value_error("[device_set_library] expected no other library once one is loaded, given " +
                              path);
    npu::set_library(chosen = path);
}

void synchronize(int number) {
    if (Device* device = Device::find(number)) on_device(number, [&] { wait_for_all(*device, true); });
}

// Only where the lanes have failed: work that others have under way is left alone.
void recover(int number) {
    Device* device = Device::find(number);
    if (!device) return;
    on_device(number, [&] {
        try {
            device->wait_all(0);
        } catch (const npu::Failure& failure) {
            lose_written(*device, failure);
            npu::Uses through;
            {
                const py::gil_scoped_release released;
                through = device->settle();
            }
            // Before anybody can ask whether it is done.
            lose_unfinished(*device, through, failure);
            const py::gil_scoped_release released;
            device->recover(through);
        }
    });
}

void reset(int number) {
    Device* device = Device::find(number);
    if (!device) return;
    lose_all(
        device,
        {"aclrtResetDevice", 0, "the device was reset, and what only its memory had is lost", false, {}});
    DeviceCode::unload_all(device);
    on_device(number, [&] {
        const py::gil_scoped_release released;
        device->reset();
    });
}

void shut_down() {
    lose_all(nullptr,
             {"aclFinalize", 0, "the device was shut down, and what only its memory had is lost", false, {}});
    DeviceCode::unload_all(nullptr);
    const py::gil_scoped_release released;
    npu::shut_down();
}

void use_stream(int number, uintptr_t stream) {
    Device& device = open(number);
    on_device(number, [&] { device.use_stream(reinterpret_cast<void*>(stream)); });
}

uintptr_t stream(int number, int lane) {
    if (lane < 0 || lane >= static_cast<int>(npu::lanes))
        throw py::value_error("[device_stream] expected a lane from 0 to 3, given " + std::to_string(lane));
    Device& device = open(number);
    return reinterpret_cast<uintptr_t>(
        on_device(number, [&] { return device.stream(static_cast<Lane>(lane)); }));
}

py::object to_device(py::handle object, int number, bool committed) {
    Buffer* source = expect_buffer(object);
    Device* device = number < 0 ? nullptr : &open(number);
    if (device) refresh(source);
    py::object made = made_buffer();
    Memory& memory = expect_buffer(made)->memory;
    on_device(device                ? number
              : source->memory.side ? source->memory.side->number
                                    : -1,
              [&] { copy(memory, source->memory, device); });
    if (device) memory.side->committed = committed;
    return made;
}

py::object wrap_device(uintptr_t address, size_t nbytes, int number, py::object owner) {
    Device& device = open(number);
    py::object made = made_buffer();
    Memory& memory = expect_buffer(made)->memory;
    on_device(number, [&] {
        adopt(memory, reinterpret_cast<void*>(address), nbytes, device, owner.release().ptr());
    });
    return made;
}

std::vector<double> time_launch(DeviceCode& code, int number, uint32_t blocks, const py::bytes& arguments,
                                const std::vector<std::pair<uint32_t, py::object>>& pointers, int repeats) {
    Device& device = open(number);
    std::string block = arguments;
    std::vector<Device::Span> spans;
    std::vector<double> times;
    on_device(number, [&] {
        const npu::Function& function = code.on(device);
        for (const auto& [at, object] : pointers) {
            Memory& memory = expect_buffer(object)->memory;
            if (size_t{at} + 8 > block.size())
                throw py::value_error("[time_launch] expected a place in the block of arguments");
            upload(memory, device);
            if (memory.side->written.lane != Lane::compute) device.order(Lane::compute, memory.side->written);
            std::memcpy(&block[at], &memory.side->block.address, sizeof(void*));
        }
        const uint64_t run = next_run();
        Ticket ticket;
        for (int k = 0; k < repeats; ++k) {
            spans.push_back(device.begin_span(Lane::compute));
            ticket = device.launch(Lane::compute, function, blocks, block.data(), block.size(), run, 0);
            device.end_span(Lane::compute, spans.back());
        }
        for (const auto& [at, object] : pointers) {
            // Which of them it wrote is not said.
            Memory& memory = expect_buffer(object)->memory;
            memory.side->written = ticket;
            memory.side->run = run;
            memory.side->block.uses[npu::index_of(Lane::compute)] = ticket.number;
            device_written(memory, expect_buffer(object)->stays());
        }
        wait_for(device, ticket, true);
        for (const Device::Span& span : spans) {
            if (const auto time = device.time(span, 1000))
                times.push_back(static_cast<double>(time->second - time->first) / 1e3);
            else
                device.drop(span);
        }
    });
    return times;
}

}  // namespace

void define_devices(py::module_& m) {
    define_device_failure(m);
    m.def("set_device_error_handler", &set_device_error_handler, "handler"_a);
    py::class_<DeviceCode>(m, "DeviceCode")
        .def(py::init<std::string, const std::string&, std::string>(), "code"_a, "kind"_a, "name"_a)
        .def_property_readonly("name", &DeviceCode::name);
    m.def("device_set_library", &use_library, "path"_a);
    m.def("device_count", [] { return on_device(-1, [] { return Device::count(); }); });
    m.def("device_soc_name", [] { return on_device(-1, [] { return Device::soc_name(); }); });
    m.def("device_open", [](int device) { open(device); }, "device"_a);
    m.def("device_is_open", [](int device) { return Device::find(device) != nullptr; }, "device"_a);
    m.def("device_stats", &device_stats, "device"_a);
    m.def(
        "device_reset_peak",
        [](int number) {
            if (Device* device = Device::find(number)) device->reset_peak();
        },
        "device"_a);
    m.def(
        "device_set_limit",
        [](int number, size_t nbytes) {
            Device& device = open(number);
            on_device(number, [&] { device.set_limit(nbytes); });
        },
        "device"_a, "nbytes"_a);
    m.def(
        "device_release_cache",
        [](int number) {
            Device* device = Device::find(number);
            return device ? on_device(number, [&] { return device->release_cache(); }) : 0;
        },
        "device"_a);
    m.def("device_synchronize", &synchronize, "device"_a);
    m.def("device_recover", &recover, "device"_a);
    m.def("device_reset", &reset, "device"_a);
    m.def("device_shut_down", &shut_down);
    m.def("device_set_blocking", &set_blocking, "blocking"_a);
    m.def(
        "device_set_marks",
        [](uintptr_t begin, uintptr_t end) {
            marks::begin = reinterpret_cast<marks::Begin>(begin);
            marks::end = reinterpret_cast<marks::End>(end);
        },
        "begin"_a, "end"_a);
    m.def("device_use_stream", &use_stream, "device"_a, "stream"_a);
    m.def("device_stream", &stream, "device"_a, "lane"_a);
    m.def("to_device", &to_device, "buffer"_a, "device"_a, "committed"_a);
    m.def("wrap_device", &wrap_device, "address"_a, "nbytes"_a, "device"_a, "owner"_a);
    m.def("time_launch", &time_launch, "code"_a, "device"_a, "blocks"_a, "arguments"_a, "pointers"_a,
          "repeats"_a);
    // Before the interpreter goes: it costs nothing where no device was opened.
    py::module_::import("atexit").attr("register")(py::cpp_function(&shut_down));
}

}  // namespace pyasc
