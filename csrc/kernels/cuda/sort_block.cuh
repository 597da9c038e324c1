// A CTA sorts records in shared memory.
#pragma once

#include "kernels/cuda/primitives.cuh"

namespace hyrecall::cuda {

__device__ inline std::uint32_t power_of_two_from(std::uint32_t n) {
  std::uint32_t power = 1;
  while (power < n) power *= 2;
  return power;
}

template <typename T>
__device__ inline void exchange_at(T* all, std::uint32_t i, std::uint32_t j) {
  T const one = all[i];
  all[i] = all[j];
  all[j] = one;
}

// Sorts records 0 to n - 1, n a power of 2; all kThreads threads call it, before it the records are
// written without a barrier, after it all have them. before(i, j) says whether record i comes
// before record j, exchange(i, j) changes their places. Bitonic (Batcher, AFIPS 1968).
template <unsigned kThreads, typename Before, typename Exchange>
__device__ inline void sort_block(std::uint32_t n, Before&& before, Exchange&& exchange) {
#pragma unroll 1
  for (std::uint32_t size = 2; size <= n; size *= 2) {
#pragma unroll 1
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      sync_block();  // all have done with the last stride
#pragma unroll 1
      for (std::uint32_t i = threadIdx.x; i < n / 2; i += kThreads) {
        std::uint32_t const low = (i & ~(stride - 1)) * 2 + (i & (stride - 1));
        std::uint32_t const high = low + stride;
        bool const is_rising = (low & size) == 0;
        if (before(high, low) == is_rising) exchange(low, high);
      }
    }
  }
  sync_block();
}

}  // namespace hyrecall::cuda
