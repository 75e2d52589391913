#include "copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "threads.hpp"

namespace pyasc {

namespace {

constexpr int64_t chunk_bytes = int64_t{256} << 10;

template <int64_t Size>
void copy_items(char* target, const char* source, const Copy::Axis& axis, int64_t count) {
    for (int64_t n = 0; n < count; ++n) std::memcpy(target + n * axis.target, source + n * axis.source, Size);
}

void copy_row(char* target, const char* source, const Copy::Axis& axis, int64_t count, int64_t itemsize) {
    if (axis.target == itemsize && axis.source == itemsize) {
        std::memcpy(target, source, static_cast<size_t>(count * itemsize));
        return;
    }
    switch (itemsize) {
        case 1:
            return copy_items<1>(target, source, axis, count);
        case 2:
            return copy_items<2>(target, source, axis, count);
        case 4:
            return copy_items<4>(target, source, axis, count);
        case 8:
            return copy_items<8>(target, source, axis, count);
        case 16:
            return copy_items<16>(target, source, axis, count);
        default:
            for (int64_t n = 0; n < count; ++n)
                std::memcpy(target + n * axis.target, source + n * axis.source,
                            static_cast<size_t>(itemsize));
    }
}

struct Range {
    const Copy* copy;
    char* target;
    const char* source;
};

// Units are rows, or the elements of the only one.
void copy_range(void* context, int64_t begin, int64_t end, int) {
    const Range& range = *static_cast<const Range*>(context);
    const std::vector<Copy::Axis>& axes = range.copy->axes;
    const Copy::Axis& last = axes.back();
    const int64_t itemsize = range.copy->itemsize;
    if (axes.size() == 1) {
        copy_row(range.target + begin * last.target, range.source + begin * last.source, last, end - begin,
                 itemsize);
        return;
    }
    for (int64_t row = begin; row < end; ++row) {
        int64_t rest = row, target = 0, source = 0;
        for (size_t k = axes.size() - 1; k-- > 0;) {
            const int64_t index = rest % axes[k].extent;
            rest /= axes[k].extent;
            target += index * axes[k].target;
            source += index * axes[k].source;
        }
        copy_row(range.target + target, range.source + source, last, last.extent, itemsize);
    }
}

}  // namespace

Copy::Copy(const std::vector<int64_t>& target_strides, const std::vector<int64_t>& source_strides,
           const std::vector<int64_t>& extents, int64_t itemsize)
    : itemsize(itemsize) {
    if (target_strides.size() != extents.size() || source_strides.size() != extents.size() || itemsize <= 0)
        throw std::invalid_argument("[copy] expected strides for each extent, and a positive itemsize");
    for (size_t k = 0; k < extents.size(); ++k) {
        if (extents[k] < 0) throw std::invalid_argument("[copy] expected extents that are not negative");
        count *= extents[k];
        if (extents[k] != 1) axes.push_back({extents[k], target_strides[k], source_strides[k]});
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [](const Axis& a, const Axis& b) { return std::abs(a.target) > std::abs(b.target); });
    for (size_t k = axes.size(); k-- > 1;) {
        Axis &outer = axes[k - 1], &inner = axes[k];
        if (outer.target != inner.target * inner.extent || outer.source != inner.source * inner.extent)
            continue;
        outer = {outer.extent * inner.extent, inner.target, inner.source};
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(k));
    }
    if (axes.empty()) axes.push_back({1, itemsize, itemsize});
}

void Copy::run(char* target, const char* source) const {
    if (count == 0) return;
    Range range{this, target, source};
    const int64_t row = axes.size() == 1 ? 1 : axes.back().extent;
    const int64_t grain = std::max<int64_t>(chunk_bytes / (row * itemsize), 1);
    Threads::instance().run(count / row, grain, copy_range, &range);
}

}  // namespace pyasc
