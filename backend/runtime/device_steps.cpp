// The steps of a run that a device does.
#include <algorithm>
#include <cstring>
#include <memory>

#include "failure.hpp"
#include "marks.hpp"
#include "run.hpp"

namespace py = pybind11;

namespace pyasc {

namespace {

using npu::Lane;
using npu::Ticket;

bool blocking = false;

// Memory that is used by what is put into the lanes now.
class Scratch {
  public:
    Scratch(npu::Device& device, size_t nbytes, Lane lane) : device_(device) {
        if (nbytes) block_ = allocate_on(device, nbytes, lane);
    }
    ~Scratch() {
        if (block_.address) device_.release(block_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    npu::DeviceBlock& block() { return block_; }

  private:
    npu::Device& device_;
    npu::DeviceBlock block_;
};

void put_address(char* block, uint32_t offset, const void* address, int64_t beyond) {
    const uint64_t value = reinterpret_cast<uint64_t>(address) + static_cast<uint64_t>(beyond);
    std::memcpy(block + offset, &value, sizeof value);
}

}  // namespace

void set_blocking(bool on) { blocking = on; }

void Program::Run::open() {
    device_ = &npu::Device::open(program_.device_);
    for (uint32_t k = 0; k < program_.inputs_; ++k) {
        refresh(slots_[k].buffer);
        const Memory& memory = slots_[k].buffer->memory;
        const DeviceSide* side = memory.side.get();
        note_input(number_, memory);
        committed_ = committed_ || (side && side->valid && side->committed);
    }
}

void Program::Run::fetch_for_step(Memory& memory) {
    const DeviceSide* const side = memory.side.get();
    interpreter_.acquire();
    const bool timed = timed_ && device_ && !side->on_host && !side->coming.number;
    if (timed) begin_copy_back(memory);
    on_device(side->number, [&] { fetch(memory, may_stop()); });
}

bool Program::Run::run(const step::DeviceAllocate& step) {
    interpreter_.acquire();
    Memory& memory = this->memory(step.slot);
    begin_on(memory, step.nbytes, *device_, step.lane);
    memory.side->committed = committed_;
    return false;
}

bool Program::Run::run(const step::Upload& step) {
    interpreter_.acquire();
    Memory& memory = this->memory(step.slot);
    if (is_on(memory, *device_)) return false;
    begin_time("upload", static_cast<size_t>(memory.nbytes), Lane::upload);
    pyasc::upload(memory, *device_);
    end_time(Lane::upload);
    return true;
}

bool Program::Run::run(const step::Download& step) {
    interpreter_.acquire();
    Memory& memory = this->memory(step.slot);
    if (on_host(memory) || memory.side->coming.number) return false;
    begin_copy_back(memory);
    return true;
}

void Program::Run::begin_copy_back(Memory& memory) {
    // First, so that what is waited for is not in the time.
    after(Lane::download, memory.side->written);
    begin_time("download", static_cast<size_t>(memory.nbytes), Lane::download);
    begin_download(memory);
    end_time(Lane::download);
}

bool Program::Run::run(const step::Written& step) {
    Memory& memory = this->memory(step.slot);
    if (!memory.side) return false;
    interpreter_.acquire();
    if (step.on_host)
        host_written(memory);
    else
        device_written(memory, stays(step.slot));
    return false;
}

bool Program::Run::run(const step::DeviceLaunch& launch) {
    interpreter_.acquire();
    // Neither an operand nor what the kernel needs besides makes room by taking an operand away.
    bool missing = launch.workspace || (launch.status >= 0 && !status_.address);
    for (const auto& operand : launch.operands) missing = missing || !is_on(memory(operand.slot), *device_);
    Held held;
    if (missing) {
        for (const auto& operand : launch.operands) held.add(memory(operand.slot));
        for (const auto& operand : launch.operands) run(step::Upload{operand.slot});
    }
    const npu::Function& function = launch.code->on(*device_);
    for (const auto& operand : launch.operands) {
        const DeviceSide& side = *memory(operand.slot).side;
        after(launch.lane, side.written);
        if (!operand.written) continue;
        for (size_t lane = 0; lane < npu::lanes; ++lane)
            after(launch.lane, {static_cast<Lane>(lane), side.block.uses[lane]});
    }
    Scratch workspace(*device_, launch.workspace ? launch.workspace->second : 0, launch.lane);
    Inline<char, 1024> block(launch.arguments.size());
    std::memcpy(block.data(), launch.arguments.data(), launch.arguments.size());
    fill(block.data(), launch);
    if (launch.workspace) put_address(block.data(), launch.workspace->first, workspace.block().address, 0);
    if (launch.status >= 0) {
        if (!status_.address) begin_status(launch.lane);
        after(launch.lane, cleared_);
        put_address(block.data(), static_cast<uint32_t>(launch.status), status_.address,
                    static_cast<int64_t>(launch.status_offset));
    }
    const char* const mark = work_ < marks_.size() ? marks_[work_].c_str() : nullptr;
    ++work_;
    const marks::Range range(mark, mark ? device_->stream(launch.lane) : nullptr);
    begin_time("device_launch", 0, launch.lane);
    const Ticket ticket = device_->launch(launch.lane, function, launch.blocks, block.data(),
                                          launch.arguments.size(), number_, launch.label);
    for (const auto& operand : launch.operands) {
        Memory& memory = this->memory(operand.slot);
        memory.side->block.uses[npu::index_of(launch.lane)] = ticket.number;
        if (!operand.written) continue;
        memory.side->written = ticket;
        memory.side->run = number_;
        device_written(memory, stays(operand.slot));
    }
    workspace.block().uses[npu::index_of(launch.lane)] = ticket.number;
    if (launch.status >= 0) status_.uses[npu::index_of(launch.lane)] = ticket.number;
    end_time(launch.lane);
    if (blocking) wait_for(*device_, ticket, may_stop());
    return true;
}

void Program::Run::fill(char* block, const step::DeviceLaunch& launch) {
    for (const auto& pointer : launch.pointers)
        put_address(block, pointer.at, memory(pointer.slot).side->block.address, pointer.offset);
    for (const Patch& patch : launch.patches) {
        uint64_t bits;
        std::memcpy(&bits, scalars_ + size_t{8} * patch.scalar, sizeof bits);
        if (!patch.apply(block, bits)) raise_fault(launch.label, wide_scalar, static_cast<int64_t>(bits));
    }
}

// Zeros for all launches of the run at once.
void Program::Run::begin_status(Lane lane) {
    status_ = allocate_on(*device_, program_.status_bytes_, lane);
    cleared_ = device_->fill(lane, status_, 0, 0, program_.status_bytes_);
    status_.uses[npu::index_of(lane)] = cleared_.number;
}

void Program::Run::check_status() {
    const size_t nbytes = program_.status_bytes_;
    npu::ScopedPinned pinned(*device_, nbytes);
    for (size_t lane = 0; lane < npu::lanes; ++lane)
        after(Lane::download, {static_cast<Lane>(lane), status_.uses[lane]});
    const Ticket ticket = device_->download(pinned.address(), status_, 0, nbytes);
    status_.uses[npu::index_of(ticket.lane)] = ticket.number;
    pinned.used(ticket);
    device_->mark(ticket);
    wait_for(*device_, ticket, may_stop());
    const int64_t* const words = static_cast<const int64_t*>(pinned.address());
    for (const Step& step : program_.steps_) {
        const auto* found = std::get_if<std::unique_ptr<step::DeviceLaunch>>(&step);
        if (!found || (*found)->status < 0) continue;
        const step::DeviceLaunch* launch = found->get();
        const int64_t* status = words + launch->status_offset / sizeof(int64_t);
        for (uint32_t k = 0; k < launch->blocks; ++k, status += step::DeviceLaunch::status_words)
            if (status[0]) raise_fault(launch->label, status[0], status[1]);
    }
}

// Who looks at a result waits for this run, not for what others put into the lane after it.
void Program::Run::mark_outputs() {
    for (const uint32_t root : program_.output_roots_)
        if (const DeviceSide* side = memory(root).side.get(); side && side->written.number)
            device_->mark(side->written);
}

void Program::Run::begin_time(const char* kind, size_t nbytes, Lane lane) {
    if (!timed_) return;
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    const int64_t start = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
    times_.push_back({kind, nbytes, start, -1, true, device_->begin_span(lane)});
}

void Program::Run::end_time(Lane lane) {
    if (!timed_) return;
    Time& time = times_.back();
    device_->end_span(lane, time.span);
    time.end = time.start;
}

void Program::Run::release_device() noexcept {
    if (status_.address) device_->release(status_);
    status_ = {};
}

}  // namespace pyasc
