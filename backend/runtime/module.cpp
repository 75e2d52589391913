// The extension module pyasc.backend._runtime.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "device_module.hpp"
#include "executor.hpp"
#include "failure.hpp"
#include "object.hpp"
#include "threads.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace pyasc {

namespace {

py::object allocate(size_t nbytes) {
    py::object made = made_buffer();
    Memory& memory = expect_buffer(made)->memory;
    memory.block = on_device(-1, [&] { return Pool::instance().allocate(nbytes); });
    memory.address = static_cast<char*>(memory.block.address);
    memory.nbytes = static_cast<Py_ssize_t>(nbytes);
    return made;
}

py::object wrap(const py::array& array) {
    constexpr int needed =
        py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
    if ((array.flags() & needed) != needed)
        throw py::value_error("[wrap] expected an aligned, C-contiguous array; copy it first");
    py::object made = made_buffer();
    Buffer* buffer = expect_buffer(made);
    buffer->memory.address = static_cast<char*>(const_cast<void*>(array.data()));
    buffer->memory.nbytes = array.nbytes();
    buffer->owner = Py_NewRef(array.ptr());
    return made;
}

py::array array(py::handle object, const std::vector<py::ssize_t>& shape, const py::dtype& dtype,
                bool writable) {
    Buffer* buffer = expect_buffer(object);
    py::ssize_t nbytes = dtype.itemsize();
    std::vector<py::ssize_t> strides(shape.size());
    for (size_t k = shape.size(); k-- > 0;) {
        strides[k] = nbytes;
        if (shape[k] < 0 || __builtin_mul_overflow(nbytes, shape[k], &nbytes))
            throw py::value_error("[array] expected a shape that the buffer holds");
    }
    if (nbytes > buffer->memory.nbytes)
        throw py::value_error("[array] expected a buffer of " + std::to_string(nbytes) + " bytes, given " +
                              std::to_string(buffer->memory.nbytes));
    // The view's base is what marks the buffer exported for as long as the view lives.
    py::object base = py::reinterpret_borrow<py::object>(object);
    if (!writable) {
        base = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(object.ptr()));
        if (!base) throw py::error_already_set();
    }
    py::array result(dtype, shape, strides, host_address(buffer), base);
    if (!writable) py::detail::array_proxy(result.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    return result;
}

py::dict memory_stats() {
    const MemoryStats stats = Pool::instance().stats();
    return py::dict("used"_a = stats.used, "cached"_a = stats.cached, "peak"_a = stats.peak,
                    "limit"_a = stats.limit);
}

void set_threads(int count) {
    if (count < 1)
        throw py::value_error("[set_threads] expected 1 thread or more, given " + std::to_string(count));
    const py::gil_scoped_release released;
    Threads::instance().set_count(count);
}

// The block of an object linked for an address and given symbols, and where its functions are.
py::tuple link_object(const py::bytes& code, const std::vector<std::string>& names, uint64_t address,
                      const std::map<std::string, uint64_t>& symbols) {
    const Object object{std::string_view(code)};
    std::vector<uint64_t> functions;
    for (const std::string& name : names) functions.push_back(object.function(name));
    std::string block(object.size(), '\0');
    object.link(block.data(), address, [&](const char* name) {
        const auto found = symbols.find(name);
        return found == symbols.end() ? 0 : found->second;
    });
    return py::make_tuple(py::bytes(block), functions);
}

}  // namespace

}  // namespace pyasc

PYBIND11_MODULE(_runtime, m) {
    using namespace pyasc;
    m.doc() = "Memory pool, threads and plan executor.";
    if (PyType_Ready(&BufferType) < 0) throw py::error_already_set();
    m.attr("Buffer") = py::handle(reinterpret_cast<PyObject*>(&BufferType));
    m.def("allocate", &allocate, "nbytes"_a);
    m.def("wrap", &wrap, "array"_a);
    m.def("array", &pyasc::array, "buffer"_a, "shape"_a, "dtype"_a, "writable"_a = false);
    m.def("memory_stats", &memory_stats);
    m.def("reset_peak_memory", [] { Pool::instance().reset_peak(); });
    m.def("set_memory_limit", [](size_t nbytes) { Pool::instance().set_limit(nbytes); }, "nbytes"_a);
    m.def("release_cache", [] { return Pool::instance().release_cache(); });
    m.def("set_errors", &set_memory_error, "memory_error"_a);
    m.def("set_threads", &set_threads, "count"_a);
    m.attr("KERNEL_ABI") = kernel_abi;
    m.attr("WIDE_SCALAR") = wide_scalar;
    m.def("threads", [] { return Threads::instance().count(); });
    m.def("set_fault_handler", &set_fault_handler, "handler"_a);
    define_devices(m);
    py::class_<Code>(m, "Code").def_property_readonly("addresses", &Code::addresses);
    m.def(
        "load_object",
        [](const py::bytes& code, const std::vector<std::string>& names) {
            return std::make_unique<Code>(std::string_view(code), names);
        },
        "code"_a, "names"_a);
    m.def("link_object", &link_object, "code"_a, "names"_a, "address"_a, "symbols"_a);
    py::class_<Program>(m, "Program")
        .def(py::init<uint32_t, uint32_t, const std::vector<uint32_t>&>(), "inputs"_a, "slots"_a, "outputs"_a)
        .def("allocate", &Program::allocate, "slot"_a, "nbytes"_a)
        .def("alias", &Program::alias, "slot"_a, "source"_a)
        .def("free", &Program::free, "slot"_a)
        .def("launch", &Program::launch, "phases"_a, "pointers"_a, "integers"_a, "scalars"_a, "scratch"_a,
             "thread_scratch"_a, "label"_a)
        .def("copy", &Program::copy, "target"_a, "target_offset"_a, "target_strides"_a, "source"_a,
             "source_offset"_a, "source_strides"_a, "extents"_a, "itemsize"_a)
        .def("call", &Program::call, "function"_a, "slots"_a, "scalars"_a, "label"_a)
        .def("device_allocate", &Program::device_allocate, "slot"_a, "nbytes"_a, "device"_a)
        .def("upload", &Program::upload, "slot"_a, "device"_a)
        .def("download", &Program::download, "slot"_a)
        .def("written", &Program::written, "slot"_a, "device"_a)
        .def("device_launch", &Program::device_launch, "code"_a, "device"_a, "lane"_a, "blocks"_a,
             "arguments"_a, "pointers"_a, "patches"_a, "outputs"_a, "workspace"_a, "status"_a, "label"_a)
        .def_property_readonly("device_steps", &Program::device_steps)
        .def_property_readonly("last_run", &Program::last_run)
        .def("run", &Program::run, "leaves"_a, "scalars"_a, "receivers"_a = py::none(), "log"_a = py::none(),
             "marks"_a = std::vector<std::string>());
}
