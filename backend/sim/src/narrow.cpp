#include "narrow.hpp"

#include "ascendc/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sim {

namespace {

void widen_each(float* out, const uint16_t* in, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = half_to_float(in[i]);
}

void narrow_each(uint16_t* out, const float* in, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = float_to_half(in[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void widen_eight(float* out, const uint16_t* in, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    for (; i < count; ++i) out[i] = _cvtsh_ss(in[i]);
}

__attribute__((target("avx,f16c"))) void narrow_eight(uint16_t* out, const float* in, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; ++i) out[i] = static_cast<uint16_t>(_cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT));
}

const bool has_f16c = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
#endif

}  // namespace

void widen_half(float* out, const uint16_t* in, int64_t count) {
#if defined(__x86_64__)
    if (has_f16c) return widen_eight(out, in, count);
#endif
    widen_each(out, in, count);
}

void narrow_half(uint16_t* out, const float* in, int64_t count) {
#if defined(__x86_64__)
    if (has_f16c) return narrow_eight(out, in, count);
#endif
    narrow_each(out, in, count);
}

}  // namespace sim
