// Ascend C for the simulator: what a kernel includes.
#pragma once

#include <algorithm>
#include <cassert>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/entry.hpp"
#include "ascendc/types.hpp"
#include "ascendc/tensor.hpp"
#include "ascendc/sync.hpp"
#include "ascendc/framework.hpp"
#include "ascendc/system.hpp"
#if __has_include("ascendc/vector.hpp")
#include "ascendc/vector.hpp"
#endif
#if __has_include("ascendc/cube.hpp")
#include "ascendc/cube.hpp"
#endif
