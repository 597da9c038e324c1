// Which instruction sets there are.
#pragma once

#include <vector>

#include "kernels/cpu/front.hpp"

namespace hyrecall::cpu {

// Every copy of the first pass that this CPU and system can run, the plainest first.
std::vector<FrontKernels> found_front_kernels();

}  // namespace hyrecall::cpu
