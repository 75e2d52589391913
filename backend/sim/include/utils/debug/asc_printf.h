// Text out of a kernel, for programs that include it by this name.
#pragma once

#include "kernel_operator.h"
