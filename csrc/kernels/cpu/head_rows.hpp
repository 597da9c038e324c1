// Heads of rows (kernels/head_rows.hpp) for each instruction set.
#pragma once

#include "kernels/head_rows.hpp"

namespace hyrecall::cpu {

HeadKernels scalar_head_kernels();
HeadKernels avx2_head_kernels();
HeadKernels avx512_head_kernels();
HeadKernels neon_head_kernels();

}  // namespace hyrecall::cpu
