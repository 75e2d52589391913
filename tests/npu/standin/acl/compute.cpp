// Binaries, and kernels in the simulator's engine.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "standin.hpp"

namespace standin {

// A kernel on its way. Of one that was compiled for both kinds of cores apart, each core calls its own.
struct Run : sim::Launch {
    const Function* function = nullptr;
    uint64_t address = 0;  // for signals between cores
    std::atomic<uint32_t> told{0};
    std::atomic<uint64_t> told_wrongly{0};
};

// A block of arguments that the library keeps: of several pieces, each aligned to 8 bytes. A thread has one,
// and each begins a new one in its place. A kernel for both kinds of cores has the address for signals first.
struct Arguments {
    Function* function;
    std::vector<uint8_t> block;
    bool final = false;
};

namespace {

Run& running() { return *static_cast<Run*>(sim::current->launch); }

void enter(void* const* arguments) {
    const Function& function = *running().function;
    const bool cube = function.cube && sim::current->kind == sim::CoreKind::Cube;
    (cube ? function.cube : function.kernel)->call(arguments);
}

uint64_t address_of_device(int32_t device) { return sync_address + static_cast<uint64_t>(device) * 4096; }

uint32_t kind_of(const Function& function) { return function.cube ? 2 : function.kernel->kind; }

aclError exception_of(const Function& function, sim::Kind kind) {
    const bool vector = kind_of(function) == 0;
    if (kind == sim::Kind::Deadlock) return vector ? vector_timeout : core_timeout;
    return vector ? vector_exception : cube_exception;
}

// Buffers that a launch was given, and where the caller has them.
struct Given {
    uintptr_t address;
    sim::GlobalBuffer buffer;
};

// Takes the block of arguments apart; what is wrong with it, or "".
std::string unpack(Run& run, const Stream& stream, std::vector<uint8_t>& block, std::vector<Given>& given) {
    const Kernel& kernel = *run.function->kernel;
    for (uint32_t i = 0; i < kernel.count; ++i) {
        const Parameter& parameter = kernel.parameters[i];
        uint8_t* const place = block.data() + parameter.offset;
        run.arguments.push_back(place);
        if (!parameter.pointer) continue;
        uintptr_t address = 0;
        std::memcpy(&address, place, sizeof address);
        if (address == 0 || address == run.address) continue;
        auto* memory = find(reinterpret_cast<const void*>(address));
        if (!memory || memory->second.device != stream.device) {
            const char* what = !memory                     ? "no memory"
                               : memory->second.device < 0 ? "the host's memory"
                                                           : "another device's memory";
            complain(text("%s: argument %u, 0x%llx, is in %s", kernel.name, i,
                          static_cast<unsigned long long>(address), what));
            return text("argument %u, 0x%llx, is in %s", i, static_cast<unsigned long long>(address), what);
        }
        uint8_t* const bytes = memory->second.bytes + (address - memory->first);
        std::memcpy(place, &bytes, sizeof bytes);
        const bool known = std::any_of(given.begin(), given.end(),
                                       [&](const Given& other) { return other.address == memory->first; });
        if (!known)
            given.push_back(
                {memory->first, {memory->second.bytes, memory->second.size, static_cast<int32_t>(i)}});
    }
    return "";
}

// What a kernel read and wrote, all its cores together.
void touch_all(const Run& run, const std::vector<Given>& given, const Stream& stream, const Task& task) {
    for (size_t number = 0; number < given.size(); ++number) {
        auto* memory = find(reinterpret_cast<const void*>(given[number].address));
        if (!memory) continue;
        uint64_t read_low = UINT64_MAX, read_high = 0, write_low = UINT64_MAX, write_high = 0;
        for (const auto& core : run.finished) {
            if (!core) continue;
            for (const auto& access : core->traces[number].reads) {
                read_low = std::min(read_low, access.low());
                read_high = std::max(read_high, access.high());
            }
            for (const auto& access : core->traces[number].writes) {
                write_low = std::min(write_low, access.low());
                write_high = std::max(write_high, access.high());
            }
        }
        const char* name = run.function->kernel->name;
        if (read_low < read_high) touch(*memory, stream, task, read_low, read_high, false, name);
        if (write_low < write_high) touch(*memory, stream, task, write_low, write_high, true, name);
    }
}

std::string said_by(const Run& run) {
    const sim::Finding& finding = run.finding;
    return text("kernel %s: %s: ", run.function->name.c_str(), sim::name_of(finding.kind)) + finding.message;
}

}  // namespace

void stop(Run& run) {
    const std::lock_guard lock(run.mutex);
    run.failed = -1;
    run.changed.notify_all();
}

aclError check_arguments(const Function& function, int32_t device, const void* data, size_t bytes) {
    const Kernel& kernel = *function.kernel;
    if (!data || bytes != kernel.block_bytes)
        return misuse(bad_argument, text("%s: its arguments take %u bytes, %zu were given", kernel.name,
                                         kernel.block_bytes, bytes));
    if (function.signals && kernel.count) {
        uint64_t address = 0;
        std::memcpy(&address, data, sizeof address);
        if (address != address_of_device(device))
            return misuse(bad_argument,
                          text("%s: the first argument is not aclrtGetHardwareSyncAddr's, 0x%llx",
                               kernel.name, static_cast<unsigned long long>(address)));
    }
    return success;
}

std::pair<aclError, std::string> run(Lock& lock, Stream& stream, const Task& task) {
    Machine& all = machine();
    const Function& function = *task.function;
    const std::string name = "kernel " + function.name;
    if (aclError code = fault("kernel")) return {code, name + text(": %d was injected", code)};
    if (fault("hang")) {
        const auto ended = [&] { return stream.aborting || stream.context->error; };
        const int32_t limit = all.execute_timeout_s ? static_cast<int32_t>(all.execute_timeout_s * 1000) : -1;
        if (wait_until(lock, limit, ended)) return {success, ""};
        return {exception_of(function, sim::Kind::Deadlock), name + " did not end"};
    }
    if (aclError milliseconds = fault("slow"))
        wait_until(lock, milliseconds, [&] { return stream.aborting; });
    if (all.settings.null_kernels) return {success, ""};

    Run run;
    run.function = &function;
    run.address = address_of_device(stream.device);
    run.entry = enter;
    run.kind = static_cast<sim::Launch::Kind>(kind_of(function));
    run.vectors_per_block = static_cast<int32_t>(function.kernel->vectors);
    run.blocks = static_cast<int32_t>(task.blocks);
    run.capacities = all.settings.chip;
    run.check = !all.settings.unchecked;
    run.slots = 1;
    std::vector<uint8_t> block = task.arguments;
    block.resize(block.size() + 8);
    std::vector<Given> given;
    const std::string wrong = unpack(run, stream, block, given);
    if (!wrong.empty()) return {exception_of(function, sim::Kind::Bounds), name + ": " + wrong};
    for (const Given& one : given) run.buffers.push_back(one.buffer);
    constexpr size_t system_workspace = size_t{16} << 20;
    const std::unique_ptr<void, void (*)(void*)> workspace(std::calloc(1, system_workspace), std::free);
    run.workspace = static_cast<uint8_t*>(workspace.get());
    run.buffers.push_back({run.workspace, system_workspace, -1});

    stream.running = &run;
    lock.unlock();
    run.run();
    lock.lock();
    stream.running = nullptr;
    touch_all(run, given, stream, task);
    if (run.finding.kind != sim::Kind::None && run.finding.kind != sim::Kind::Stopped) {
        const std::string said = said_by(run);
        complain(said);
        return {exception_of(function, run.finding.kind), said};
    }
    const bool needs = function.signals || (function.kernel->waits && !function.kernel->whole);
    if (needs && !stream.aborting && (run.told == 0 || run.told_wrongly != 0))
        return {kind_of(function) == 0 ? vector_exception : cube_exception,
                name + ": the address for signals between cores was not set, or to another"};
    return {success, ""};
}

namespace {

constexpr char both[9] = "STANDIN2";  // at the end of a binary of two objects, after where the second begins

const Table* open_object(Library& library, const char* data, size_t size) {
    char path[] = "/tmp/standin-kernel-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return nullptr;
    const bool written = write(file, data, size) == static_cast<ssize_t>(size);
    close(file);
    void* opened = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!opened)
        fail(bad_argument, std::string("the binary cannot be loaded: ") + (written ? dlerror() : "no room"));
    unlink(path);
    if (!opened) return nullptr;
    library.opened.push_back(opened);
    const auto* table = static_cast<const Table*>(dlsym(opened, "standin_table"));
    if (!table || table->version != table_version) {
        fail(bad_argument, "the binary is none for this device");
        return nullptr;
    }
    return table;
}

void close_library(Library* library) {
    const std::unique_ptr<Library> owned(library);
    auto& lists = machine().arguments;
    for (auto& function : library->functions) {
        machine().functions.erase(function.get());
        for (auto it = lists.begin(); it != lists.end();)
            it = static_cast<Arguments*>(it->second.get())->function == function.get() ? lists.erase(it)
                                                                                       : std::next(it);
    }
    for (void* opened : library->opened) dlclose(opened);
    machine().libraries.erase(library);
}

const Kernel* find_kernel(const Table* table, const std::string& name) {
    for (uint32_t i = 0; table && i < table->count; ++i)
        if (name == table->kernels[i].name) return &table->kernels[i];
    return nullptr;
}

aclError load(const char* data, size_t size, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    if (!current) return misuse(no_context, "a binary without a context");
    if (!data || size < 64 || std::memcmp(data, "\177ELF", 4) != 0)
        return misuse(bad_argument, "the binary is no ELF file");
    uint64_t second = 0;
    if (std::memcmp(data + size - 8, both, 8) == 0) std::memcpy(&second, data + size - 16, 8);
    auto library = std::make_unique<Library>();
    library->device = current->device;
    library->mixed = second != 0;
    const Table* first = open_object(*library, data, second ? second : size - 0);
    const Table* other = first && second ? open_object(*library, data + second, size - 16 - second) : nullptr;
    if (!first || (second && !other)) {
        close_library(library.release());
        return bad_argument;
    }
    const Table* vector = second && first->count && first->kernels[0].kind == 1 ? other : first;
    const Table* cube = !second ? nullptr : vector == first ? other : first;
    uint32_t expected = cube ? magic_mixed : 0;
    for (uint32_t i = 0; i < vector->count; ++i) {
        const Kernel& kernel = vector->kernels[i];
        std::string name = kernel.name;
        const Kernel* partner = nullptr;
        const size_t end = name.rfind(kernel.kind == 1 ? "_mix_aic" : "_mix_aiv");
        const bool side = end != std::string::npos && end + 8 == name.size();
        if (side) name.resize(end);
        if (cube) {
            partner = find_kernel(cube, name);
            if (!partner) partner = find_kernel(cube, name + "_mix_aic");
            if (!partner) continue;
        } else {
            expected = side               ? magic_mixed
                       : kernel.kind == 0 ? magic_vector
                       : kernel.kind == 1 ? magic_cube
                                          : magic_mixed;
        }
        auto function = std::make_unique<Function>(
            Function{&kernel, partner, name, library.get(), side || cube != nullptr});
        library->functions.push_back(std::move(function));
    }
    for (size_t i = 0; options && i < options->count; ++i)
        if (options->options[i].type == option_magic && options->options[i].value.magic != expected) {
            const uint32_t magic = options->options[i].value.magic;
            close_library(library.release());
            return misuse(bad_argument, text("the binary's magic is 0x%x, 0x%x was given", expected, magic));
        }
    for (auto& function : library->functions) machine().functions.insert(function.get());
    *handle = library.get();
    machine().libraries.insert(library.release());
    return success;
}

aclError launch(Function& function, uint32_t blocks, const void* arguments, size_t bytes,
                aclrtStream handle) {
    Machine& all = machine();
    aclError error = success;
    Stream* stream = stream_of(handle, error);
    if (error) return error;
    if (blocks == 0 || blocks > most_blocks)
        return misuse(bad_argument, text("%s: %u blocks", function.name.c_str(), blocks));
    if (function.library->device >= 0 && function.library->device != stream->device)
        return misuse(bad_argument,
                      text("%s was loaded to device %d", function.name.c_str(), function.library->device));
    if ((error = check_arguments(function, stream->device, arguments, bytes))) return error;
    Task task(Task::Kind::Kernel);
    task.function = &function;
    task.blocks = blocks;
    const auto* begin = static_cast<const uint8_t*>(arguments);
    task.arguments.assign(begin, begin + bytes);
    error = submit(*stream, std::move(task));
    if (error) return error;
    ++function.library->launches;
    ++all.launches;
    return success;
}

// Kernels of libraries that were compiled for the host, with their launches.
Function& function_of(const Kernel& kernel) {
    static Library library{{}, -1, {}, 0, 0, false};
    for (auto& function : library.functions)
        if (function->kernel == &kernel && function->name == kernel.name) return *function;
    library.functions.push_back(
        std::make_unique<Function>(Function{&kernel, nullptr, kernel.name, &library}));
    return *library.functions.back();
}

Function* checked(const char* name, aclrtFuncHandle handle, aclError& error) {
    if (machine().functions.count(handle)) return static_cast<Function*>(handle);
    error = misuse(invalid_handle, text("%s: there is no function %p", name, handle));
    return nullptr;
}

}  // namespace

}  // namespace standin

using namespace standin;

__attribute__((visibility("default"))) int standin_launch(const Kernel* kernel, uint32_t blocks, void* stream,
                                                          const void* arguments, size_t bytes) {
    Call call("launch");
    if (call.error) return call.error;
    if (aclError error = fault("launch")) return fail(error, text("%d was injected", error));
    return launch(function_of(*kernel), blocks, arguments, bytes, stream);
}

__attribute__((visibility("default"))) void standin_sync_address(uint64_t address) {
    Run& run = running();
    ++run.told;
    if (address != run.address) run.told_wrongly = address;
}

ACL_EXPORT aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options,
                                            aclrtBinHandle* handle) {
    Call call("aclrtBinaryLoadFromFile");
    if (call.error) return call.error;
    std::ifstream file(path, std::ios::binary);
    const std::string data{std::istreambuf_iterator<char>(file), {}};
    return load(data.data(), data.size(), options, handle);
}

ACL_EXPORT aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
    Call call("aclrtBinaryUnLoad");
    if (call.error) return call.error;
    if (!machine().libraries.count(handle))
        return misuse(invalid_handle, "aclrtBinaryUnLoad: there is no such binary");
    auto* library = static_cast<Library*>(handle);
    if (library->through != library->launches)
        return misuse(invalid_handle, "aclrtBinaryUnLoad of a binary whose kernels are not through");
    close_library(library);
    return success;
}

ACL_EXPORT aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name,
                                           aclrtFuncHandle* function) {
    Call call("aclrtBinaryGetFunction");
    if (call.error) return call.error;
    if (!machine().libraries.count(handle))
        return misuse(invalid_handle, "aclrtBinaryGetFunction: there is no such binary");
    for (auto& one : static_cast<Library*>(handle)->functions)
        if (one->name == name) {
            *function = one.get();
            return success;
        }
    return misuse(no_such_kernel, text("the binary has no kernel %s", name));
}

static Arguments* arguments_of(const char* name, void* handle, aclError& error) {
    const auto it = machine().arguments.find(handle);
    if (it != machine().arguments.end()) return static_cast<Arguments*>(it->second.get());
    error = misuse(invalid_handle, text("%s: there is no list of arguments %p", name, handle));
    return nullptr;
}

ACL_EXPORT aclError aclrtKernelArgsInit(aclrtFuncHandle handle, aclrtArgsHandle* made) {
    Call call("aclrtKernelArgsInit");
    if (call.error) return call.error;
    aclError error = success;
    Function* function = checked("aclrtKernelArgsInit", handle, error);
    if (error) return error;
    static thread_local void* own = nullptr;
    auto arguments = std::make_shared<Arguments>(Arguments{function, {}});
    if (function->signals) arguments->block.resize(sizeof(uint64_t));
    *made = arguments.get();
    machine().arguments.erase(own);
    own = *made;
    machine().arguments.emplace(*made, std::move(arguments));
    return success;
}

ACL_EXPORT aclError aclrtKernelArgsAppend(aclrtArgsHandle handle, void* data, size_t bytes,
                                          aclrtParamHandle* made) {
    Call call("aclrtKernelArgsAppend");
    if (call.error) return call.error;
    aclError error = success;
    Arguments* arguments = arguments_of("aclrtKernelArgsAppend", handle, error);
    if (error) return error;
    std::vector<uint8_t>& block = arguments->block;
    const size_t offset = block.size();
    block.resize((offset + bytes + 7) / 8 * 8);
    std::memcpy(block.data() + offset, data, bytes);
    *made = reinterpret_cast<void*>(offset + 1);
    arguments->final = false;
    return success;
}

ACL_EXPORT aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle handle, aclrtParamHandle place, void* data,
                                              size_t bytes) {
    Call call("aclrtKernelArgsParaUpdate");
    if (call.error) return call.error;
    aclError error = success;
    Arguments* arguments = arguments_of("aclrtKernelArgsParaUpdate", handle, error);
    if (error) return error;
    const size_t offset = reinterpret_cast<size_t>(place) - 1;
    if (offset + bytes > arguments->block.size())
        return misuse(bad_argument, "aclrtKernelArgsParaUpdate past the end");
    std::memcpy(arguments->block.data() + offset, data, bytes);
    arguments->final = false;
    return success;
}

ACL_EXPORT aclError aclrtKernelArgsFinalize(aclrtArgsHandle handle) {
    Call call("aclrtKernelArgsFinalize");
    if (call.error) return call.error;
    aclError error = success;
    Arguments* arguments = arguments_of("aclrtKernelArgsFinalize", handle, error);
    if (error) return error;
    if (!current) return misuse(no_context, "aclrtKernelArgsFinalize without a context");
    if (arguments->function->signals) {
        const uint64_t address = address_of_device(current->device);
        std::memcpy(arguments->block.data(), &address, sizeof address);
    }
    arguments->final = true;
    return success;
}

ACL_EXPORT aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle handle, uint32_t blocks, aclrtStream stream,
                                                void*, aclrtArgsHandle list, void*) {
    Call call("aclrtLaunchKernelWithConfig");
    if (call.error) return call.error;
    if (aclError error = fault("launch")) return fail(error, text("%d was injected", error));
    aclError error = success;
    Function* function = checked("aclrtLaunchKernelWithConfig", handle, error);
    Arguments* arguments = error ? nullptr : arguments_of("aclrtLaunchKernelWithConfig", list, error);
    if (error) return error;
    if (arguments->function != function || !arguments->final)
        return misuse(bad_argument,
                      "aclrtLaunchKernelWithConfig: the arguments are not final, or another function's");
    return launch(*function, blocks, arguments->block.data(), arguments->block.size(), stream);
}

ACL_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t seconds) {
    Call call("aclrtSetOpExecuteTimeOut");
    if (!call.error) machine().execute_timeout_s = seconds;
    return call.error;
}

ACL_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t) { return success; }

ACL_EXPORT aclError aclrtBinaryLoadFromData(const void* data, size_t size,
                                            const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    Call call("aclrtBinaryLoadFromData");
    return call.error ? call.error : load(static_cast<const char*>(data), size, options, handle);
}

ACL_EXPORT aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle handle, uint32_t blocks, aclrtStream stream,
                                                  void*, void* arguments, size_t bytes, aclrtPlaceHolderInfo*,
                                                  size_t placeholders) {
    Call call("aclrtLaunchKernelWithHostArgs");
    if (call.error) return call.error;
    if (aclError error = fault("launch")) return fail(error, text("%d was injected", error));
    if (placeholders) return misuse(unsupported, "placeholders");
    aclError error = success;
    Function* function = checked("aclrtLaunchKernelWithHostArgs", handle, error);
    return error ? error : launch(*function, blocks, arguments, bytes, stream);
}

ACL_EXPORT aclError aclrtGetHardwareSyncAddr(void** address) {
    Call call("aclrtGetHardwareSyncAddr");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "aclrtGetHardwareSyncAddr without a context");
    *address = reinterpret_cast<void*>(address_of_device(current->device));
    return success;
}

// Of the layer below, where older versions have it.
ACL_EXPORT int rtGetC2cCtrlAddr(uint64_t* address, uint32_t* bytes) {
    Call call("rtGetC2cCtrlAddr");
    if (call.error) return call.error;
    if (!current) return misuse(no_context, "rtGetC2cCtrlAddr without a context");
    *address = address_of_device(current->device);
    *bytes = 4096;
    return success;
}

ACL_EXPORT aclError aclrtGetFunctionName(aclrtFuncHandle handle, uint32_t size, char* name) {
    Call call("aclrtGetFunctionName");
    if (call.error) return call.error;
    aclError error = success;
    Function* function = checked("aclrtGetFunctionName", handle, error);
    if (error) return error;
    std::strncpy(name, function->name.c_str(), size);
    if (size) name[size - 1] = 0;
    return success;
}

ACL_EXPORT aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
    Call call("aclrtSetExceptionInfoCallback", false);
    if (!call.error) machine().callback = callback;
    return call.error;
}
ACL_EXPORT aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback) {
    return aclrtSetExceptionInfoCallback(callback);
}
ACL_EXPORT aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback) {
    return aclrtSetExceptionInfoCallback(nullptr);
}
ACL_EXPORT uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) { return info->task; }
ACL_EXPORT uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) { return info->stream; }
ACL_EXPORT uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) { return info->thread; }
ACL_EXPORT uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) { return info->device; }
ACL_EXPORT uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) { return info->code; }
