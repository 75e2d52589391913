#include "memory.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace pyasc {

namespace {

using npu::Lane;
using npu::Ticket;

// A copy of less keeps the interpreter's lock: handing it over costs more.
constexpr Py_ssize_t worth_releasing = Py_ssize_t{64} << 10;
// Between two looks at signals.
constexpr int patience = 20;

DeviceSide* sides = nullptr;

// From which runs the latest took their inputs.
struct Inputs {
    uint64_t run = 0;
    std::vector<uint64_t> from;
};
std::array<Inputs, 1024> inputs;
uint64_t runs = 0;

Inputs& inputs_of(uint64_t run) { return inputs[run % inputs.size()]; }

// Memory of a device that goes back unless it is taken.
class Fresh {
  public:
    Fresh(npu::Device& device, npu::DeviceBlock block) : device_(device), block_(block) {}
    ~Fresh() {
        if (block_.address) device_.release(block_);
    }
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;
    npu::DeviceBlock& block() { return block_; }
    npu::DeviceBlock take() { return std::exchange(block_, {}); }

  private:
    npu::Device& device_;
    npu::DeviceBlock block_;
};

void release_pinned(npu::PinnedBlock& pinned, Ticket use) noexcept {
    if (!pinned.address) return;
    if (use.number)
        pinned.uses[npu::index_of(use.lane)] = std::max(pinned.uses[npu::index_of(use.lane)], use.number);
    if (npu::Device* device = npu::Device::known(pinned.device)) device->release_pinned(pinned);
    pinned = {};
}

bool is_current(const DeviceSide& side) { return side.device && side.block.era == side.device->era(); }

void drop_download(DeviceSide& side) noexcept { release_pinned(side.target, std::exchange(side.coming, {})); }

void drop_device(DeviceSide& side) noexcept {
    if (side.owner) {
        if (is_current(side)) {
            // The other library may use the memory again at once, in the stream that is our compute lane.
            try {
                for (size_t lane = 1; lane < npu::lanes; ++lane)
                    if (side.block.uses[lane])
                        side.device->order(Lane::compute, {static_cast<Lane>(lane), side.block.uses[lane]});
            } catch (const npu::Failure&) {  // found again at the next call
            }
        }
        Py_CLEAR(side.owner);
    } else if (side.block.address && is_current(side)) {
        side.device->release(side.block);
    }
    side.block = {};
    side.written = {};
    side.run = 0;
    side.valid = side.committed = side.exported = false;
}

// Memory of the host is pool's, pinned, or (neither) an array's.
void drop_host(Memory& memory) noexcept {
    if (memory.block.address) Pool::instance().release(std::exchange(memory.block, {}));
    if (memory.side && memory.address == memory.side->pinned.address)
        release_pinned(memory.side->pinned, std::exchange(memory.side->leaving, {}));
    memory.address = nullptr;
}

DeviceSide& side_of(Memory& memory) {
    if (!memory.side) memory.side = std::make_unique<DeviceSide>();
    return *memory.side;
}

void install(Memory& memory, npu::Device& device, npu::DeviceBlock block, Ticket written) {
    DeviceSide& side = side_of(memory);
    drop_device(side);
    side.device = &device;
    side.number = device.number();
    side.block = block;
    side.written = written;
    side.valid = true;
    side.lost = nullptr;
}

// Copies on the device of what the host has too, that nobody needs there just now.
bool evict(npu::Device& device) {
    bool found = false;
    for (DeviceSide* side = sides; side; side = side->next) {
        const bool spare = side->valid && side->on_host && !side->committed && !side->exported &&
                           !side->owner && !side->busy && side->device == &device;
        if (spare && is_current(*side)) {
            drop_device(*side);
            found = true;
        }
    }
    return found;
}

void finish_download(Memory& memory) {
    DeviceSide& side = *memory.side;
    const Ticket done = side.coming;
    if (memory.address) {  // that others look at
        if (memory.nbytes > worth_releasing) {
            const py::gil_scoped_release released;
            std::memcpy(memory.address, side.target.address, static_cast<size_t>(memory.nbytes));
        } else {
            std::memcpy(memory.address, side.target.address, static_cast<size_t>(memory.nbytes));
        }
        drop_download(side);
    } else {
        drop_host(memory);
        side.pinned = std::exchange(side.target, {});
        side.pinned.uses[npu::index_of(done.lane)] = done.number;
        side.coming = {};
        memory.address = static_cast<char*>(side.pinned.address);
    }
    side.on_host = true;
}

// Into memory of the device, in the upload lane.
Ticket upload_to(npu::DeviceBlock& block, npu::Device& device, Memory& from) {
    const size_t nbytes = static_cast<size_t>(from.nbytes);
    if (!nbytes) return {};
    const bool pinned = from.side && from.address == from.side->pinned.address;
    Ticket ticket;
    if (from.nbytes > worth_releasing && !pinned) {
        const py::gil_scoped_release released;
        ticket = device.upload(block, 0, from.address, nbytes, false);
    } else {
        ticket = device.upload(block, 0, from.address, nbytes, pinned);
    }
    if (pinned && from.side) {
        from.side->leaving = ticket;
        from.side->pinned.uses[npu::index_of(ticket.lane)] = ticket.number;
    }
    device.mark(ticket);
    return ticket;
}

// Into memory of a device that another one writes: it goes back only once that is over.
void send(Fresh& fresh, npu::Device& device, DeviceSide& from, size_t nbytes, bool signals) {
    npu::Device& other = *from.device;
    const Ticket before = device.latest(Lane::upload);
    device.mark(before);
    wait_for(device, before, signals);
    if (!from.valid && from.lost) throw npu::Failure(*from.lost);  // it was reset in the meantime
    if (from.written.number) other.order(Lane::download, from.written);
    const Ticket sent = other.copy(Lane::download, fresh.block(), 0, from.block, 0, nbytes);
    from.block.uses[npu::index_of(sent.lane)] = sent.number;
    try {
        other.mark(sent);
        wait_for(other, sent, signals);
    } catch (...) {
        const py::gil_scoped_release released;
        bool over = false;
        try {
            over = other.wait_all(1000);
        } catch (const npu::Failure&) {
            try {
                over = other.settle()[npu::index_of(sent.lane)] >= sent.number;
            } catch (const npu::Failure&) {
            }
        }
        if (!over) fresh.take();
        throw;
    }
}

// From another device, through the host where it must be. The host waits: a lane that waited for another
// device's would do so for ever once that one is reset, and only the other one knows whether what is copied
// went well.
Ticket copy_over(Fresh& fresh, npu::Device& device, DeviceSide& from, size_t nbytes, bool signals) {
    npu::Device& other = *from.device;
    Ticket arrived;
    if (other.reaches(device)) {
        send(fresh, device, from, nbytes, signals);
    } else {
        npu::PinnedBlock staging = other.allocate_pinned(nbytes);
        Ticket sent;
        try {
            if (from.written.number) other.order(Lane::download, from.written);
            sent = other.download(staging.address, from.block, 0, nbytes);
            from.block.uses[npu::index_of(sent.lane)] = sent.number;
            other.mark(sent);
            wait_for(other, sent, signals);
            arrived = device.upload(fresh.block(), 0, staging.address, nbytes);
        } catch (...) {
            release_pinned(staging, sent);
            throw;
        }
        release_pinned(staging, sent);
        wait_for(device, arrived, signals);
    }
    if (!from.valid && from.lost) throw npu::Failure(*from.lost);  // it was reset in the meantime
    return arrived;
}

}  // namespace

DeviceSide::DeviceSide() : previous(nullptr), next(sides) {
    if (sides) sides->previous = this;
    sides = this;
}

DeviceSide::~DeviceSide() {
    (previous ? previous->next : sides) = next;
    if (next) next->previous = previous;
}

npu::Device* device_of(const Memory& memory) {
    const DeviceSide* side = memory.side.get();
    return side && side->valid && is_current(*side) ? side->device : nullptr;
}

void release(Memory& memory) noexcept {
    drop_host(memory);
    if (memory.side) {
        drop_download(*memory.side);
        drop_device(*memory.side);
        memory.side.reset();
    }
}

npu::DeviceBlock allocate_on(npu::Device& device, size_t nbytes, Lane lane) {
    nbytes = std::max<size_t>(nbytes, 1);
    try {
        return device.allocate(nbytes, lane);
    } catch (const OutOfMemory&) {
        if (!evict(device)) throw;
    }
    return device.allocate(nbytes, lane);
}

void begin_on(Memory& memory, size_t nbytes, npu::Device& device, Lane lane) {
    const npu::DeviceBlock block = allocate_on(device, nbytes, lane);
    memory.nbytes = static_cast<Py_ssize_t>(nbytes);
    install(memory, device, block, {});
    memory.side->on_host = false;
}

void upload(Memory& memory, npu::Device& device) {
    if (is_on(memory, device)) return;
    npu::Device* const other = device_of(memory);
    if (!on_host(memory) && !other) fetch(memory, true);  // a download is under way, or it is lost
    Fresh fresh(device, allocate_on(device, static_cast<size_t>(memory.nbytes), Lane::upload));
    if (!on_host(memory)) {
        DeviceSide& side = *memory.side;
        const Ticket ticket = copy_over(fresh, device, side, static_cast<size_t>(memory.nbytes), false);
        drop_download(side);
        const uint64_t run = side.run;
        install(memory, device, fresh.take(), ticket);
        side.run = run;
        return;
    }
    const Ticket ticket = upload_to(fresh.block(), device, memory);
    // Another thread may have been quicker.
    if (!is_on(memory, device)) install(memory, device, fresh.take(), ticket);
}

void begin_download(Memory& memory) {
    DeviceSide* const side = memory.side.get();
    if (!side || side->on_host || side->coming.number || !memory.nbytes) return;
    if (!side->valid || !is_current(*side)) {
        if (side->lost) throw npu::Failure(*side->lost);
        throw npu::Failure{
            "download", 0, "the device was reset, and what only its memory had is lost", false, {}};
    }
    npu::Device& device = *side->device;
    npu::PinnedBlock target = device.allocate_pinned(static_cast<size_t>(memory.nbytes));
    try {
        if (side->written.number && side->written.lane != Lane::download)
            device.order(Lane::download, side->written);
        side->coming = device.download(target.address, side->block, 0, static_cast<size_t>(memory.nbytes));
    } catch (const npu::Failure&) {
        device.release_pinned(target);
        throw;
    }
    side->target = target;
    side->block.uses[npu::index_of(side->coming.lane)] = side->coming.number;
    device.mark(side->coming);
}

void fetch(Memory& memory, bool signals) {
    DeviceSide* const side = memory.side.get();
    if (!side) return;
    while (!side->on_host) {
        if (!memory.nbytes) {
            if (!memory.address) {
                memory.block = Pool::instance().allocate(0);
                memory.address = static_cast<char*>(memory.block.address);
            }
            side->on_host = true;
            break;
        }
        begin_download(memory);
        const Ticket coming = side->coming;
        try {
            wait_for(*side->device, coming, signals);
        } catch (const npu::Failure& failure) {
            if (side->coming.number == coming.number) drop_download(*side);
            if (!side->valid) side->lost = std::make_shared<npu::Failure>(failure);
            throw;
        }
        if (side->coming.number == coming.number && !side->on_host) finish_download(memory);
    }
    if (side->leaving.number) {
        if (is_current(*side)) wait_for(*side->device, side->leaving, signals);
        side->leaving = {};
    }
}

void host_written(Memory& memory) {
    if (memory.side && memory.side->on_host) drop_device(*memory.side);
}

void device_written(Memory& memory, bool stays) {
    DeviceSide* const side = memory.side.get();
    if (!side || !side->valid) return;
    if (side->coming.number) drop_download(*side);
    if (!side->on_host) return;
    side->on_host = false;
    if (!stays) drop_host(memory);
}

void copy(Memory& to, Memory& from, npu::Device* device) {
    const size_t nbytes = static_cast<size_t>(from.nbytes);
    npu::Device* const source = device_of(from);
    if (device && (source == device || (source && !on_host(from)))) {
        const Lane lane = source == device ? Lane::compute : Lane::upload;
        Held held;
        held.add(from);  // room for the copy is not made of what is copied
        Fresh fresh(*device, allocate_on(*device, nbytes, lane));
        DeviceSide& side = *from.side;
        Ticket ticket;
        if (source == device) {
            if (side.written.number && side.written.lane != lane) device->order(lane, side.written);
            if (nbytes) ticket = device->copy(lane, fresh.block(), 0, side.block, 0, nbytes);
            if (ticket.number) side.block.uses[npu::index_of(ticket.lane)] = ticket.number;
        } else if (nbytes) {
            ticket = copy_over(fresh, *device, side, nbytes, true);
        }
        if (ticket.number) fresh.block().uses[npu::index_of(ticket.lane)] = ticket.number;
        to.nbytes = from.nbytes;
        install(to, *device, fresh.take(), ticket);
        to.side->run = side.run;
        to.side->on_host = false;
    } else if (device) {
        if (!on_host(from)) fetch(from, true);
        Fresh fresh(*device, allocate_on(*device, nbytes, Lane::upload));
        const Ticket ticket = upload_to(fresh.block(), *device, from);
        to.nbytes = from.nbytes;
        install(to, *device, fresh.take(), ticket);
        to.side->on_host = false;
    } else if (on_host(from)) {
        to.block = Pool::instance().allocate(nbytes);
        to.address = static_cast<char*>(to.block.address);
        to.nbytes = from.nbytes;
        if (nbytes) std::memcpy(to.address, from.address, nbytes);
    } else {
        begin_download(from);
        // The download goes to the copy, and the source may have another.
        to.nbytes = from.nbytes;
        DeviceSide& side = side_of(to);
        side.on_host = false;
        side.device = from.side->device;
        side.number = from.side->number;
        side.target = std::exchange(from.side->target, {});
        side.coming = std::exchange(from.side->coming, {});
    }
}

void adopt(Memory& memory, void* address, size_t nbytes, npu::Device& device, PyObject* owner) {
    npu::DeviceBlock block;
    block.address = address;
    block.capacity = nbytes;
    block.era = device.era();
    memory.nbytes = static_cast<Py_ssize_t>(nbytes);
    install(memory, device, block, {});
    DeviceSide& side = *memory.side;
    side.owner = owner;
    side.on_host = false;
    side.committed = true;
    side.written = device.latest(Lane::compute);
}

void wait_for(npu::Device& device, Ticket ticket, bool signals) {
    if (!ticket.number || device.done(ticket)) return;
    for (;;) {
        bool done;
        {
            const py::gil_scoped_release released;
            done = device.wait(ticket, patience);
        }
        if (done) return;
        if (signals && PyErr_CheckSignals() < 0) throw py::error_already_set();
    }
}

void wait_for_all(npu::Device& device, bool signals) {
    for (;;) {
        bool done;
        {
            const py::gil_scoped_release released;
            done = device.wait_all(patience);
        }
        if (done) return;
        if (signals && PyErr_CheckSignals() < 0) throw py::error_already_set();
    }
}

uint64_t next_run() {
    Inputs& found = inputs_of(++runs);
    found.run = runs;
    found.from.clear();
    return runs;
}

void note_input(uint64_t run, const Memory& input) {
    const DeviceSide* side = input.side.get();
    Inputs& found = inputs_of(run);
    if (side && side->valid && side->run && found.run == run) found.from.push_back(side->run);
}

void lose_written(npu::Device& device, const npu::Failure& failure) {
    std::unordered_set<uint64_t> failed;
    for (const auto& [run, label] : failure.launches) failed.insert(run);
    const uint64_t first = failed.empty() ? 0 : *std::min_element(failed.begin(), failed.end());
    for (uint64_t run = first + 1; first && run <= runs; ++run) {
        const Inputs& found = inputs_of(run);
        const auto is_lost = [&](uint64_t from) { return failed.count(from) > 0; };
        // What is no longer known of the oldest is taken for lost.
        if (found.run != run || std::any_of(found.from.begin(), found.from.end(), is_lost))
            failed.insert(run);
    }
    const auto went_well = [&](Ticket ticket) {
        try {
            return device.done(ticket);
        } catch (const npu::Failure&) {
            return false;
        }
    };
    const auto is_lost = [&](const DeviceSide& side) {
        if (failure.lane == Lane::download || !side.written.number) return false;
        const bool computed = side.written.lane == Lane::compute || side.written.lane == Lane::second;
        return first && computed ? failed.count(side.run) > 0 : !went_well(side.written);
    };
    std::shared_ptr<const npu::Failure> reason;
    for (DeviceSide* side = sides; side; side = side->next) {
        if (side->device != &device) continue;
        if (side->coming.number && !went_well(side->coming)) drop_download(*side);  // it is begun again
        const bool lost = side->valid && !side->owner && is_current(*side) && is_lost(*side);
        if (lost) drop_device(*side);
        if (side->valid || side->on_host || side->coming.number || side->lost) continue;
        if (!reason) reason = std::make_shared<npu::Failure>(failure);
        side->lost = reason;
    }
}

void lose_unfinished(npu::Device& device, const npu::Uses& through, const npu::Failure& failure) {
    const auto unfinished = [&](Ticket ticket) {
        return ticket.number > through[npu::index_of(ticket.lane)];
    };
    const auto reason = std::make_shared<npu::Failure>(failure);
    for (DeviceSide* side = sides; side; side = side->next) {
        if (side->device != &device) continue;
        if (unfinished(side->coming)) drop_download(*side);
        if (side->valid && !side->owner && is_current(*side) && unfinished(side->written)) drop_device(*side);
        if (!side->valid && !side->on_host && !side->coming.number && !side->lost) side->lost = reason;
    }
}

void lose_all(npu::Device* device, const npu::Failure& failure) {
    const auto reason = std::make_shared<npu::Failure>(failure);
    for (DeviceSide* side = sides; side; side = side->next) {
        if (!side->device || (device && side->device != device)) continue;
        drop_download(*side);
        drop_device(*side);
        side->leaving = {};
        if (!side->on_host) side->lost = reason;
    }
}

}  // namespace pyasc
