// Everything of the vector core: instructions and data movement.
#pragma once

#include "data_copy.hpp"
#include "vector_arithmetic.hpp"
#include "vector_cast.hpp"
#include "vector_compare.hpp"
#include "vector_layout.hpp"
#include "vector_reduce.hpp"
#include "vector_sort.hpp"
