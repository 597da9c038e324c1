// What set_thresholds (kernels.cuh) is launched with.
#pragma once

#include <cstddef>

namespace hyrecall::cuda {

// Its shared memory.
std::size_t seed_bytes();

}  // namespace hyrecall::cuda
