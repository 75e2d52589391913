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

// One piece of work on a block in a lane, begun by begin(stream).
template <class Begin>
Ticket put(Device::State& s, Lane lane, const DeviceBlock& block, const char* call, Begin begin) {
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.throw_if_failed();
    s.check_block(block);
    const Entered entered(*s.acl, s.context);
    s.checked(call, begin(s.lane[index_of(lane)].stream), lane);
    return s.issue(lane);
}

}  // namespace

Ticket Device::upload(DeviceBlock& to, size_t offset, const void* from, size_t nbytes, bool pinned) {
    State& s = *state_;
    Ticket ticket{Lane::upload, 0};
    if (nbytes == 0) return ticket;
    const auto put_piece = [&](size_t position, const void* source, size_t size) {
        ticket = put(s, Lane::upload, to, "aclrtMemcpyAsync", [&](void* stream) {
            return s.acl->aclrtMemcpyAsync(at(to, offset + position), size, source, size, host_to_device,
                                           stream);
        });
        to.uses[index_of(Lane::upload)] = ticket.number;
    };
    s.uploads.fetch_add(1, std::memory_order_relaxed);
    if (pinned) {
        put_piece(0, from, nbytes);
        return ticket;
    }
    std::array<Ticket, most_pieces> on_their_way{};
    size_t piece = 0;
    for (size_t position = 0; position < nbytes; position += piece_size, ++piece) {
        const size_t size = std::min(piece_size, nbytes - position);
        Ticket& oldest = on_their_way[piece % most_pieces];
        while (!wait(oldest, 1000)) {
        }
        ScopedPinned staging(*this, size);
        std::memcpy(staging.address(), static_cast<const char*>(from) + position, size);
        put_piece(position, staging.address(), size);
        staging.used(ticket);
        mark(ticket);
        oldest = ticket;
    }
    return ticket;
}

Ticket Device::download(void* to, const DeviceBlock& from, size_t offset, size_t nbytes) {
    State& s = *state_;
    if (nbytes == 0) return {Lane::download, 0};
    s.downloads.fetch_add(1, std::memory_order_relaxed);
    return put(s, Lane::download, from, "aclrtMemcpyAsync", [&](void* stream) {
        return s.acl->aclrtMemcpyAsync(to, nbytes, at(from, offset), nbytes, device_to_host, stream);
    });
}

Ticket Device::copy(Lane lane, const DeviceBlock& to, size_t to_offset, const DeviceBlock& from,
                    size_t from_offset, size_t nbytes) {
    State& s = *state_;
    if (nbytes == 0) return {lane, 0};
    return put(s, lane, from, "aclrtMemcpyAsync", [&](void* stream) {
        return s.acl->aclrtMemcpyAsync(at(to, to_offset), nbytes, at(from, from_offset), nbytes,
                                       device_to_device, stream);
    });
}

Ticket Device::fill(Lane lane, const DeviceBlock& to, size_t offset, int byte, size_t nbytes) {
    State& s = *state_;
    if (nbytes == 0) return {lane, 0};
    return put(s, lane, to, "aclrtMemsetAsync", [&](void* stream) {
        return s.acl->aclrtMemsetAsync(at(to, offset), nbytes, byte, nbytes, stream);
    });
}

bool Device::reaches(Device& other) {
    State& s = *state_;
    s.enter_check();
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto index = static_cast<size_t>(other.number());
    if (s.peers.size() > index && s.peers[index]) return true;
    int32_t can = 0;
    if (!s.acl->aclrtDeviceCanAccessPeer || !s.acl->aclrtDeviceEnablePeerAccess ||
        s.acl->aclrtDeviceCanAccessPeer(&can, s.number, other.number()) != code::success || !can)
        return false;
    const Entered entered(*s.acl, s.context);
    if (s.acl->aclrtDeviceEnablePeerAccess(other.number(), 0) != code::success) return false;
    s.peers.resize(std::max(s.peers.size(), index + 1));
    s.peers[index] = true;
    return true;
}

}  // namespace pyasc::npu
