#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>

#include "ascendc/types.hpp"
#include "narrow.hpp"
#include "vector_access.hpp"

namespace sim {

namespace {

constexpr uint32_t index_types = set_of({Dtype::U32});

// A score and its index as sorting instructions keep them: 8 bytes, the score first. A float16 score is
// followed by two bytes without meaning.
float score_of(Dtype dtype, const uint8_t* entry) { return load_float(dtype, entry); }

// Descending; NaN before everything.
bool before(float a, float b) { return a > b || (a != a && b == b); }

}  // namespace

void sort32(const Call& call, const Local& dst, const Local& scores, const Local& indices) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const int64_t repeats = call.repeats;
    const uint32_t size = size_of(scores.dtype);
    if (!cost_only()) {
        instruction.require(repeats >= 0 && repeats <= 255, "Expected repeatTime of 0 to 255, given %" PRId64,
                            repeats);
        check(instruction, dst, "dst", half_and_float);
        check(instruction, scores, "src0", half_and_float);
        instruction.takes(dst.dtype == scores.dtype, dst.dtype, "dst");
        check(instruction, indices, "src1", index_types);
        if (repeats > 0) {
            const auto elements = static_cast<uint64_t>(repeats) * 32;
            check_apart(instruction, dst, elements * 8, scores, elements * size, "src0");
            check_apart(instruction, dst, elements * 8, indices, elements * 4, "src1");
            instruction.reads(scores, 0, elements * size, 1, 0, "src0");
            instruction.reads(indices, 0, elements * 4, 1, 0, "src1");
            instruction.writes(dst, 0, elements * 8, 1, 0, "dst");
        }
    }
    if (repeats <= 0) return;
    instruction.work(Work::vector(static_cast<uint32_t>(repeats), 8, static_cast<uint8_t>(scores.dtype)));
    if (!instruction.issue()) return;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        const uint8_t* from = data(scores) + repeat * 32 * size;
        std::array<uint32_t, 32> order;
        std::array<float, 32> values;
        for (uint32_t i = 0; i < 32; ++i) {
            order[i] = i;
            values[i] = score_of(scores.dtype, from + i * size);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return before(values[a], values[b]); });
        uint8_t* to = data(dst) + repeat * 256;
        for (uint32_t i = 0; i < 32; ++i) {
            std::memset(to + i * 8, 0, 4);
            std::memcpy(to + i * 8, from + order[i] * size, size);
            std::memcpy(to + i * 8 + 4, data(indices) + (repeat * 32 + order[i]) * 4, 4);
        }
    }
}

void merge_sorted(const Call& call, const Local& dst, const Local src[4], const Merge& merge) {
    Instruction instruction(Pipe::V, call.name, call.where);
    if (instruction.skipped()) return;
    const int64_t repeats = call.repeats;
    const int lists = merge.valid == 15 ? 4 : merge.valid == 7 ? 3 : 2;
    uint64_t total = 0;
    for (int i = 0; i < lists; ++i) total += merge.lengths[i];
    static constexpr const char* roles[4] = {"src1", "src2", "src3", "src4"};
    if (!cost_only()) {
        instruction.require(merge.valid == 3 || merge.valid == 7 || merge.valid == 15,
                            "Expected validBit of 3, 7 or 15, given %u", merge.valid);
        instruction.require(repeats >= 0 && repeats <= 255,
                            "Expected repeatTimes of 0 to 255, given %" PRId64, repeats);
        check(instruction, dst, "dst", half_and_float);
        for (int i = 0; i < lists; ++i) {
            check(instruction, src[i], roles[i], half_and_float, 8);
            instruction.require(merge.lengths[i] <= 4095, "Expected elementLengths of 0 to 4095, given %u",
                                merge.lengths[i]);
        }
        if (repeats > 1) {
            bool alike = lists == 4 && !merge.stop_when_exhausted;
            for (int i = 1; i < 4 && alike; ++i)
                alike = merge.lengths[i] == merge.lengths[0] &&
                        src[i].offset == src[i - 1].offset + merge.lengths[i - 1] * 8U;
            instruction.require(alike,
                                "Expected four lists of one length, one after another, validBit 15 and no "
                                "ifExhaustedSuspension where repeatTimes is more than 1, given otherwise");
        }
        if (repeats > 0) {
            for (int i = 0; i < lists; ++i) {
                if (merge.lengths[i] == 0) continue;
                const uint64_t bytes = merge.lengths[i] * uint64_t{8};
                check_apart(instruction, dst, static_cast<uint64_t>(repeats) * total * 8, src[i], bytes,
                            roles[i]);
                instruction.reads(src[i], 0, bytes, static_cast<uint32_t>(repeats),
                                  static_cast<int64_t>(total * 8), roles[i]);
            }
            if (total > 0)
                instruction.writes(dst, 0, static_cast<uint64_t>(repeats) * total * 8, 1, 0, "dst");
        }
    }
    if (repeats <= 0 || total == 0) return;
    const auto entries = static_cast<uint32_t>(static_cast<uint64_t>(repeats) * total);
    instruction.work(Work::vector((entries + 31) / 32, 8, static_cast<uint8_t>(dst.dtype)));
    if (!instruction.issue()) return;
    uint64_t taken[4] = {0, 0, 0, 0};
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        const auto start = static_cast<uint64_t>(repeat) * total * 8;
        uint8_t* to = data(dst) + start;
        std::fill(std::begin(taken), std::end(taken), 0);
        for (uint64_t made = 0; made < total; ++made) {
            int best = -1;
            float best_score = 0;
            for (int i = 0; i < lists; ++i) {
                if (taken[i] == merge.lengths[i]) continue;
                const float score = score_of(dst.dtype, data(src[i]) + start + taken[i] * 8);
                if (best < 0 || before(score, best_score)) {
                    best = i;
                    best_score = score;
                }
            }
            std::memcpy(to + made * 8, data(src[best]) + start + taken[best] * 8, 8);
            ++taken[best];
            if (merge.stop_when_exhausted && taken[best] == merge.lengths[best]) break;
        }
    }
    registers().vector[merged_register] = taken[0] | taken[1] << 16 | taken[2] << 32 | taken[3] << 48;
}

}  // namespace sim
