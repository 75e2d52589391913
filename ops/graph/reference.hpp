// An owned reference to a Python object.
#pragma once

#include <Python.h>

#include <utility>

namespace pyasc {

template <class T = PyObject>
class Ref {
  public:
    Ref() = default;
    explicit Ref(T* owned) : object_(owned) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(reinterpret_cast<PyObject*>(object_)); }

    static Ref borrow(T* object) {
        Py_XINCREF(reinterpret_cast<PyObject*>(object));
        return Ref(object);
    }

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T* release() { return std::exchange(object_, nullptr); }
    PyObject* release_object() { return reinterpret_cast<PyObject*>(release()); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    T* object_ = nullptr;
};

}  // namespace pyasc
