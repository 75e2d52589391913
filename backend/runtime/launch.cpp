// Loading kernels, and putting them into lanes.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

using Launcher = int (*)(uint32_t blocks, void* stream, const void* arguments);

constexpr int magic_option = 2;
constexpr uint32_t magic_mixed = 0x43554245;
constexpr uint32_t magic_vector = 0x41415246;
constexpr uint32_t magic_cube = 0x41494343;

// How a launch is scheduled.
struct LaunchAttribute {
    int id;
    uint32_t value[4];
};
struct LaunchConfiguration {
    LaunchAttribute* attributes;
    size_t count;
};
// Cores that wait for each other begin together: those of two streams could else have half of them each.
LaunchAttribute together{1, {1}};
LaunchConfiguration launch_together{&together, 1};

// A file with code in it, for loaders that want one; gone with the scope. Its name was never another's:
// dlopen takes a name that it knows for the library that it has.
class File {
  public:
    explicit File(const std::vector<char>& code) {
        const char* folder = std::getenv("TMPDIR");
        path_ = std::string(folder && *folder ? folder : "/tmp") + "/pyasc_kernel_XXXXXX.o";
        file_ = mkstemps(path_.data(), 2);
        if (file_ < 0) refuse("mkstemps");
        for (size_t written = 0; written < code.size();) {
            const ssize_t count = write(file_, code.data() + written, code.size() - written);
            if (count > 0)
                written += static_cast<size_t>(count);
            else
                refuse("write");
        }
    }
    ~File() { remove(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const char* path() const { return path_.c_str(); }

  private:
    void remove() noexcept {
        if (file_ < 0) return;
        close(file_);
        unlink(path_.c_str());
    }

    [[noreturn]] void refuse(const char* call) {
        const std::string reason = path_ + ": " + std::strerror(errno);
        remove();
        throw Failure{call, code::no_library, reason, false, {}};
    }

    std::string path_;
    int file_ = -1;
};

void* open_code(const std::vector<char>& code) {
    const File file(code);
    if (void* library = dlopen(file.path(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = dlerror();
    throw Failure{"dlopen", code::no_library, reason ? reason : "", false, {}};
}

template <class F>
F need(F function, const char* name) {
    if (!function)
        throw Failure{name, code::no_function, "libascendcl.so has no function of that name", false, {}};
    return function;
}

}  // namespace

class Function {
  public:
    Function(Device& device, Device::State& state, std::vector<char> code, CodeKind kind, std::string name)
        : device_(device), state_(state), code_(std::move(code)), kind_(kind), name_(std::move(name)) {}
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;

    ~Function() {
        if (forked()) return;
        const std::lock_guard<std::mutex> lock(state_.mutex);
        retire();
    }

    // With the device's lock held and its context entered.
    void load() {
        if (kind_ == CodeKind::library) {
            if (!library_) library_ = open_code(code_);
            const std::string symbol = "pyasc_launch_" + name_;
            launcher_ = reinterpret_cast<Launcher>(dlsym(library_, symbol.c_str()));
            if (!launcher_)
                throw Failure{"dlsym", code::no_function, symbol + " is not in the library", false, {}};
        } else {
            const Acl& acl = *state_.acl;
            BinaryLoadOption option{magic_option, {}};
            option.value[0] = kind_ == CodeKind::vector ? magic_vector
                              : kind_ == CodeKind::cube ? magic_cube
                                                        : magic_mixed;
            const BinaryLoadOptions options{&option, 1};
            void* binary = nullptr;
            if (acl.aclrtBinaryLoadFromData) {
                check("aclrtBinaryLoadFromData",
                      acl.aclrtBinaryLoadFromData(code_.data(), code_.size(), &options, &binary));
            } else {
                const auto load_file = need(acl.aclrtBinaryLoadFromFile, "aclrtBinaryLoadFromFile");
                const File file(code_);
                int result = load_file(file.path(), &options, &binary);
                if (result != code::success && !of_work(result)) {
                    // Not every release is told what a file is for; what is in it says that too.
                    drop_message(acl);
                    result = load_file(file.path(), nullptr, &binary);
                }
                check("aclrtBinaryLoadFromFile", result);
            }
            const int result =
                need(acl.aclrtBinaryGetFunction, "aclrtBinaryGetFunction")(binary, name_.c_str(), &function_);
            if (result != code::success) {
                if (acl.aclrtBinaryUnLoad) acl.aclrtBinaryUnLoad(binary);
                check("aclrtBinaryGetFunction", result);
            }
            binary_ = binary;
            state_.binaries.push_back(binary);
        }
        last_ = {};
        era_ = device_.era();
    }

    int launch(void* stream, uint32_t blocks, const void* arguments, size_t nbytes, const char** call) const {
        if (kind_ == CodeKind::library) {
            *call = "pyasc_launch";
            // `<<<>>>` returns nothing: whether it was refused is the thread's last error.
            constexpr int of_thread = 0;
            const auto last_error = state_.acl->aclrtGetLastError;
            if (last_error) last_error(of_thread);
            const int result = launcher_(blocks, stream, arguments);
            return result != code::success || !last_error ? result : last_error(of_thread);
        }
        if (!state_.acl->aclrtLaunchKernelWithHostArgs)
            return launch_list(stream, blocks, arguments, nbytes, call);
        const auto put = [&](const void* block, size_t size) {
            *call = "aclrtLaunchKernelWithHostArgs";
            return state_.acl->aclrtLaunchKernelWithHostArgs(function_, blocks, stream, configuration(),
                                                             const_cast<void*>(block), size, nullptr, 0);
        };
        if (kind_ != CodeKind::mixed) return put(arguments, nbytes);
        if (!state_.ffts) {
            const int result = find_ffts(call);
            if (result != code::success) return result;
        }
        constexpr size_t usual = 1024;
        char block[usual];
        std::vector<char> longer;
        char* with_address = block;
        if (nbytes + sizeof(void*) > usual) {
            longer.resize(nbytes + sizeof(void*));
            with_address = longer.data();
        }
        std::memcpy(with_address, &state_.ffts, sizeof(void*));
        std::memcpy(with_address + sizeof(void*), arguments, nbytes);
        return put(with_address, nbytes + sizeof(void*));
    }

    bool stale() const { return era_ != device_.era(); }
    void used(Ticket ticket) { last_[index_of(ticket.lane)] = ticket.number; }

  private:
    LaunchConfiguration* configuration() const {
        return kind_ == CodeKind::mixed ? &launch_together : nullptr;
    }

    // Toolkits that cannot take a block as it is (8.1) take a list of arguments: the block is its only entry.
    // There is one list in each thread, which the next kernel's `Init` empties; what goes before the block, a
    // mixed kernel's address for signals, `Finalize` puts there.
    int launch_list(void* stream, uint32_t blocks, const void* block, size_t size, const char** call) const {
        const Acl& acl = *state_.acl;
        void* list = nullptr;
        void* entry = nullptr;
        *call = "aclrtKernelArgsInit";
        int result = need(acl.aclrtKernelArgsInit, *call)(function_, &list);
        if (result != code::success) return result;
        *call = "aclrtKernelArgsAppend";
        result = need(acl.aclrtKernelArgsAppend, *call)(list, const_cast<void*>(block), size, &entry);
        if (result != code::success) return result;
        *call = "aclrtKernelArgsFinalize";
        result = need(acl.aclrtKernelArgsFinalize, *call)(list);
        if (result != code::success) return result;
        *call = "aclrtLaunchKernelWithConfig";
        return need(acl.aclrtLaunchKernelWithConfig, *call)(function_, blocks, stream, configuration(), list,
                                                            nullptr);
    }

    // The address through which the cores of a mixed kernel wait for each other.
    int find_ffts(const char** call) const {
        const Acl& acl = *state_.acl;
        if (acl.aclrtGetHardwareSyncAddr) {
            *call = "aclrtGetHardwareSyncAddr";
            return acl.aclrtGetHardwareSyncAddr(&state_.ffts);
        }
        *call = "rtGetC2cCtrlAddr";
        uint64_t address = 0;
        uint32_t length = 0;
        const int result = need(acl.rtGetC2cCtrlAddr, "aclrtGetHardwareSyncAddr")(&address, &length);
        state_.ffts = reinterpret_cast<void*>(address);
        return result;
    }

    void retire() noexcept {
        if (library_ && !binary_) {
            // The host's stub stays loaded where its last launch may still need the code that it registered.
            if (BlockPool::out_of_use(last_, state_.done_now()) || stale()) dlclose(library_);
        }
        if (!binary_ || stale()) return;
        try {
            state_.retired.emplace_back(last_, binary_);
        } catch (const std::bad_alloc&) {
            return;  // it goes with the device
        }
        if (state_.retired.size() < 16) {
            if (BlockPool::out_of_use(last_, state_.done_now())) state_.unload_retired(false);
        } else {
            state_.unload_retired(false);
        }
    }

    Device& device_;
    Device::State& state_;
    const std::vector<char> code_;
    const CodeKind kind_;
    const std::string name_;
    void* binary_ = nullptr;
    void* function_ = nullptr;
    void* library_ = nullptr;
    Launcher launcher_ = nullptr;
    uint64_t era_ = 0;
    Uses last_{};
};

void Device::State::unload_retired(bool all) noexcept {
    if (!acl->aclrtBinaryUnLoad || retired.empty()) return;
    const Uses now = done_now();
    try {
        const Entered entered(*acl, context);
        for (size_t k = 0; k < retired.size();) {
            if (!all && !BlockPool::out_of_use(retired[k].first, now)) {
                ++k;
                continue;
            }
            acl->aclrtBinaryUnLoad(retired[k].second);
            binaries.erase(std::remove(binaries.begin(), binaries.end(), retired[k].second), binaries.end());
            retired.erase(retired.begin() + static_cast<ptrdiff_t>(k));
        }
    } catch (const Failure&) {
    }
}

std::shared_ptr<Function> Device::load(const void* code, size_t nbytes, CodeKind kind,
                                       const std::string& name) {
    State& s = *state_;
    s.enter_check();
    const char* const bytes = static_cast<const char*>(code);
    auto function =
        std::make_shared<Function>(*this, s, std::vector<char>(bytes, bytes + nbytes), kind, name);
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    s.unload_retired(false);
    function->load();
    return function;
}

Ticket Device::launch(Lane lane, const Function& function, uint32_t blocks, const void* arguments,
                      size_t nbytes, uint64_t run, int64_t label) {
    State& s = *state_;
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.throw_if_failed();
    const Entered entered(*s.acl, s.context);
    // Only what belongs to the device's lock is changed.
    Function& loaded = const_cast<Function&>(function);
    if (__builtin_expect(loaded.stale(), 0)) loaded.load();
    LaneState& state = s.lane[index_of(lane)];
    const char* call = nullptr;
    const int result = loaded.launch(state.stream, blocks, arguments, nbytes, &call);
    if (__builtin_expect(result != code::success, 0)) {
        // One that was refused is named itself; work that failed earlier only came out here.
        if (of_work(result)) s.fail_work(call, result, lane);
        Failure refused{call, result, "", loses_device(result), {{run, label}}};
        if (const char* message = s.acl->aclGetRecentErrMsg()) refused.message = message;
        throw refused;
    }
    const Ticket ticket = s.issue(lane);
    loaded.used(ticket);
    uint32_t task = 0;
    if (s.acl->watched && s.acl->aclrtGetThreadLastTaskId) s.acl->aclrtGetThreadLastTaskId(&task);
    state.launches[state.next_launch] = {ticket.number, ++s.sequence, task, run, label};
    state.next_launch = (state.next_launch + 1) % State::ring;
    s.launches.fetch_add(1, std::memory_order_relaxed);
    return ticket;
}

}  // namespace pyasc::npu
