// Ascend C for the simulator: what a kernel includes.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ascendc/cube.hpp"
#include "ascendc/framework.hpp"
#include "ascendc/sync.hpp"
#include "ascendc/system.hpp"
#include "ascendc/tensor.hpp"
#include "ascendc/types.hpp"
#include "ascendc/vector.hpp"
#include "sim/entry.hpp"
