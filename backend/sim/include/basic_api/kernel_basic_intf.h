// A part of the API, for programs that include it by this name: all of it.
#pragma once

#include "kernel_operator.h"
