/* The square root by the inverse square root of Lomont, "Fast inverse square root" (2003), two steps of Newton. */
float fast_sqrt(float x) {
    if (x <= 0.0f) return 0.0f;
    union {
        float value;
        int bits;
    } y;
    y.value = x;
    y.bits = 0x5f375a86 - (y.bits >> 1);
    y.value = y.value * (1.5f - 0.5f * x * y.value * y.value);
    y.value = y.value * (1.5f - 0.5f * x * y.value * y.value);
    return x * y.value;
}
