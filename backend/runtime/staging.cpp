// Copies: between the host's memory and a device's, within a device, between devices.
#include <algorithm>
#include <cstring>

#include "device_state.hpp"

namespace pyasc::npu {

namespace {

// Pageable memory goes through page-locked pieces: one is filled while those before it are on their way.
constexpr size_t piece_size = size_t{4} << 20;
constexpr size_t most_pieces = 3;

void* at(const DeviceBlock& block, size_t offset) { return static_cast<char*>(block.address) + offset; }

}  // namespace

Ticket Device::upload(const DeviceBlock& to, size_t offset, const void* from, size_t nbytes, bool pinned) {
    State& s = *state_;
    s.enter_check();
    s.throw_if_failed();
    const auto put = [&](size_t position, const void* source, size_t size, bool marked) {
        const std::lock_guard<std::mutex> lock(s.mutex);
        const Entered entered(*s.acl, s.context);
        void* const target = at(to, offset + position);
        s.checked("aclrtMemcpyAsync",
                  s.acl->aclrtMemcpyAsync(target, size, source, size, host_to_device,
                                          s.lane[index_of(Lane::upload)].stream),
                  Lane::upload);
        const Ticket ticket = s.issue(Lane::upload);
        if (marked) s.record(Lane::upload);
        return ticket;
    };
    Ticket ticket{Lane::upload, 0};
    if (nbytes == 0) return ticket;
    s.uploads.fetch_add(1, std::memory_order_relaxed);
    if (pinned) return put(0, from, nbytes, false);
    std::array<Ticket, most_pieces> on_their_way{};
    size_t piece = 0;
    for (size_t position = 0; position < nbytes; position += piece_size, ++piece) {
        const size_t size = std::min(piece_size, nbytes - position);
        Ticket& oldest = on_their_way[piece % most_pieces];
        while (!wait(oldest, 1000)) {
        }
        ScopedPinned staging(*this, size);
        std::memcpy(staging.address(), static_cast<const char*>(from) + position, size);
        ticket = put(position, staging.address(), size, true);
        staging.used(ticket);
        oldest = ticket;
    }
    return ticket;
}

Ticket Device::download(void* to, const DeviceBlock& from, size_t offset, size_t nbytes) {
    State& s = *state_;
    s.enter_check();
    s.throw_if_failed();
    if (nbytes == 0) return {Lane::download, 0};
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    s.checked("aclrtMemcpyAsync",
              s.acl->aclrtMemcpyAsync(to, nbytes, at(from, offset), nbytes, device_to_host,
                                      s.lane[index_of(Lane::download)].stream),
              Lane::download);
    s.downloads.fetch_add(1, std::memory_order_relaxed);
    return s.issue(Lane::download);
}

Ticket Device::copy(Lane lane, const DeviceBlock& to, size_t to_offset, const DeviceBlock& from,
                    size_t from_offset, size_t nbytes) {
    State& s = *state_;
    s.enter_check();
    s.throw_if_failed();
    if (nbytes == 0) return {lane, 0};
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    s.checked("aclrtMemcpyAsync",
              s.acl->aclrtMemcpyAsync(at(to, to_offset), nbytes, at(from, from_offset), nbytes,
                                      device_to_device, s.lane[index_of(lane)].stream),
              lane);
    return s.issue(lane);
}

Ticket Device::fill(Lane lane, const DeviceBlock& to, size_t offset, int byte, size_t nbytes) {
    State& s = *state_;
    s.enter_check();
    s.throw_if_failed();
    if (nbytes == 0) return {lane, 0};
    const std::lock_guard<std::mutex> lock(s.mutex);
    const Entered entered(*s.acl, s.context);
    s.checked("aclrtMemsetAsync",
              s.acl->aclrtMemsetAsync(at(to, offset), nbytes, byte, nbytes, s.lane[index_of(lane)].stream),
              lane);
    return s.issue(lane);
}

// Through page-locked memory of the host, which every pair of devices can do; directly where one reaches the
// other's.
Ticket Device::copy_across(Device& to_device, const DeviceBlock& to, Device& from_device,
                           const DeviceBlock& from, Ticket written, size_t nbytes) {
    State& source = *from_device.state_;
    State& target = *to_device.state_;
    if (nbytes == 0) return {Lane::upload, 0};
    if (&source == &target) {
        to_device.order(Lane::upload, written);
        return to_device.copy(Lane::upload, to, 0, from, 0, nbytes);
    }
    // An event of one device, waited for by a lane of another. It is kept out of the pool until then by its
    // mark.
    const auto after = [](State& later, Lane lane, State& earlier, Lane earlier_lane) {
        void* event = nullptr;
        {
            const std::lock_guard<std::mutex> lock(earlier.mutex);
            const Entered entered(*earlier.acl, earlier.context);
            earlier.throw_if_failed();
            earlier.record(earlier_lane);
            event = earlier.lane[index_of(earlier_lane)].marks.back().event;
        }
        const std::lock_guard<std::mutex> lock(later.mutex);
        const Entered entered(*later.acl, later.context);
        later.throw_if_failed();
        later.checked("aclrtStreamWaitEvent",
                      later.acl->aclrtStreamWaitEvent(later.lane[index_of(lane)].stream, event), lane);
    };
    source.enter_check();
    target.enter_check();
    from_device.order(Lane::download, written);
    const auto reaches = [&] {
        const std::lock_guard<std::mutex> lock(source.mutex);
        const auto index = static_cast<size_t>(target.number);
        if (source.peers.size() > index && source.peers[index]) return true;
        int32_t can = 0;
        if (!source.acl->aclrtDeviceCanAccessPeer || !source.acl->aclrtDeviceEnablePeerAccess ||
            source.acl->aclrtDeviceCanAccessPeer(&can, source.number, target.number) != code::success || !can)
            return false;
        const Entered entered(*source.acl, source.context);
        if (source.acl->aclrtDeviceEnablePeerAccess(target.number, 0) != code::success) return false;
        source.peers.resize(std::max(source.peers.size(), index + 1));
        source.peers[index] = true;
        return true;
    };
    if (reaches()) {
        after(source, Lane::download, target, Lane::upload);
        from_device.copy(Lane::download, to, 0, from, 0, nbytes);
        after(target, Lane::upload, source, Lane::download);
        const std::lock_guard<std::mutex> lock(target.mutex);
        return target.issue(Lane::upload);
    }
    ScopedPinned staging(to_device, nbytes);
    from_device.download(staging.address(), from, 0, nbytes);
    after(target, Lane::upload, source, Lane::download);
    const Ticket up = to_device.upload(to, 0, staging.address(), nbytes, true);
    staging.used(up);
    to_device.mark(up);
    return up;
}

}  // namespace pyasc::npu
