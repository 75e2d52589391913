#include "failure.hpp"

#include <cstdio>
#include <string>

namespace py = pybind11;

namespace pyasc {

namespace {

PyObject* memory_error = nullptr;
PyObject* failure_type = nullptr;
PyObject* device_error_handler = nullptr;

std::string readable(size_t nbytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = static_cast<double>(nbytes);
    int unit = 0;
    for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

[[noreturn]] void raise(const py::object& error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw py::error_already_set();
}

}  // namespace

void define_device_failure(py::module_& module) {
    failure_type = PyErr_NewExceptionWithDoc("pyasc.backend._runtime.DeviceFailure",
                                             "A call of ACL that failed, or work on a device that did.",
                                             PyExc_Exception, nullptr);
    if (!failure_type) throw py::error_already_set();
    module.attr("DeviceFailure") = py::handle(failure_type);
}

py::object set_device_error_handler(py::object handler) {
    if (handler.is_none()) handler = py::object();
    py::object replaced =
        py::reinterpret_steal<py::object>(std::exchange(device_error_handler, handler.release().ptr()));
    return replaced ? replaced : py::none();
}

void set_memory_error(py::object type) {
    if (!PyExceptionClass_Check(type.ptr())) throw py::type_error("[set_errors] expected an exception class");
    py::object replaced =
        py::reinterpret_steal<py::object>(std::exchange(memory_error, type.release().ptr()));
}

void raise_failure(const npu::Failure& failure, int device) {
    if (failure.device >= 0) device = failure.device;
    const std::string text = npu::error_text(failure.code);
    std::string shown = failure.call + ": " + std::to_string(failure.code);
    if (!text.empty()) shown += " (" + text + ")";
    if (!failure.message.empty()) shown += ": " + failure.message;
    const py::object error = py::handle(failure_type)(shown);
    py::list launches;
    for (const auto& [run, label] : failure.launches) launches.append(py::make_tuple(run, label));
    error.attr("call") = failure.call;
    error.attr("code") = failure.code;
    error.attr("message") = failure.message;
    error.attr("text") = text;
    error.attr("lost") = failure.lost;
    error.attr("device") = device;
    error.attr("launches") = launches;
    // Looking for devices is no part of anybody's computation.
    if (!device_error_handler || device < 0) raise(error);
    raise(py::handle(device_error_handler)(error));
}

void raise_memory_error(const OutOfMemory& error, int device) {
    const std::string limit = error.stats.limit ? readable(error.stats.limit) : "none";
    const std::string where = device < 0 ? "" : " on npu:" + std::to_string(device);
    const std::string there =
        error.total ? ", " + readable(error.free) + " of the device's " + readable(error.total) + " free"
                    : "";
    const std::string text = "[allocate] " + readable(error.asked) + " (" + std::to_string(error.asked) +
                             " bytes) asked" + where + ", given " + readable(error.stats.used) + " in use, " +
                             readable(error.stats.cached) + " cached, limit " + limit + there;
    PyErr_SetString(memory_error ? memory_error : PyExc_MemoryError, text.c_str());
    throw py::error_already_set();
}

}  // namespace pyasc
