#include "block_pool.hpp"

#include <algorithm>

namespace pyasc::npu {

namespace {

constexpr size_t large = size_t{2} << 20;
constexpr size_t large_step = size_t{64} << 10;
// Waiting blocks of a class that are looked at for one that no other lane uses.
constexpr size_t looks = 8;

// Whether no lane but this uses it.
bool only_here(const Uses& uses, const Uses& done, Lane lane) {
    for (size_t k = 0; k < lanes; ++k)
        if (k != index_of(lane) && uses[k] > done[k]) return false;
    return true;
}

}  // namespace

bool BlockPool::is_large(size_t capacity) { return capacity >= large; }

size_t BlockPool::capacity_for(size_t nbytes) {
    return nbytes >= large ? round_up(nbytes, large_step) : Classes::capacity(Classes::of(nbytes));
}

bool BlockPool::out_of_use(const Uses& uses, const Uses& done) {
    for (size_t k = 0; k < lanes; ++k)
        if (uses[k] > done[k]) return false;
    return true;
}

bool BlockPool::take(size_t capacity, const Uses& done, Lane lane, bool idle, Entry* found,
                     size_t* found_capacity) {
    const auto fits = [&](const Entry& entry) {
        return idle ? out_of_use(entry.uses, done) : only_here(entry.uses, done, lane);
    };
    if (!is_large(capacity)) {
        std::vector<Entry>& waiting = small_[Classes::of(capacity)];
        if (waiting.empty()) return false;
        // The latest are warm, the earliest most likely out of use: half of the looks at each end.
        size_t place = waiting.size();
        for (size_t k = 0; k < std::min(looks, waiting.size()); ++k) {
            const size_t at = k % 2 == 0 ? waiting.size() - 1 - k / 2 : k / 2;
            if (fits(waiting[at])) {
                place = at;
                break;
            }
        }
        if (place == waiting.size()) {
            if (idle) return false;
            place = 0;
        }
        *found = waiting[place];
        *found_capacity = capacity;
        waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(place));
    } else {
        auto chosen = large_.end();
        const auto end = large_.upper_bound(capacity + capacity / 8);
        for (auto place = large_.lower_bound(capacity); place != end; ++place) {
            if (fits(place->second)) {
                chosen = place;
                break;
            }
            if (!idle && chosen == large_.end()) chosen = place;
        }
        if (chosen == large_.end()) return false;
        *found = chosen->second;
        *found_capacity = chosen->first;
        large_.erase(chosen);
    }
    cached_ -= *found_capacity;
    return true;
}

void BlockPool::keep(void* address, size_t capacity, const Uses& uses) {
    const Entry entry{address, uses, clock_++};
    if (is_large(capacity))
        large_.emplace(capacity, entry);
    else
        small_[Classes::of(capacity)].push_back(entry);
    cached_ += capacity;
}

std::vector<void*> BlockPool::drop(size_t nbytes, const Uses& done, bool all) {
    std::vector<void*> dropped;
    size_t bytes = 0;
    const auto may_go = [&](const Entry& entry) { return all || out_of_use(entry.uses, done); };
    std::vector<std::multimap<size_t, Entry>::iterator> candidates;
    for (auto place = large_.begin(); place != large_.end(); ++place)
        if (may_go(place->second)) candidates.push_back(place);
    std::sort(candidates.begin(), candidates.end(),
              [](const auto& a, const auto& b) { return a->second.since < b->second.since; });
    for (const auto& place : candidates) {
        if (bytes >= nbytes) break;
        bytes += place->first;
        dropped.push_back(place->second.address);
        large_.erase(place);
    }
    for (size_t k = small_classes; k-- > 0 && bytes < nbytes;) {
        std::vector<Entry>& waiting = small_[k];
        const auto kept = std::stable_partition(waiting.begin(), waiting.end(),
                                                [&](const Entry& entry) { return !may_go(entry); });
        for (auto place = kept; place != waiting.end(); ++place) {
            bytes += Classes::capacity(k);
            dropped.push_back(place->address);
        }
        waiting.erase(kept, waiting.end());
    }
    cached_ -= bytes;
    return dropped;
}

void BlockPool::clear() {
    large_.clear();
    for (std::vector<Entry>& waiting : small_) waiting.clear();
    cached_ = 0;
}

}  // namespace pyasc::npu
