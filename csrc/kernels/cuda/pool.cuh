// The kernels that make hits of the arms' lists, in the order in which they run.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/status.cuh"
#include "kernels/shared/pool_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kPoolThreads = 128;
inline constexpr unsigned kPoolWarps = kPoolThreads / 32;

// A CTA a query, with join_bytes(documents in all lists of a query) of shared memory.
__global__ void join_lists(PoolJob const* job);
std::size_t join_bytes(std::uint32_t n_sorted);
// A grid of (CTAs a query, queries).
__global__ void complete_pools(PoolJob const* job);
// A CTA a query, with fuse_bytes().
__global__ void fuse_pools(PoolJob const* job);
std::size_t fuse_bytes(std::uint32_t n_sorted);

}  // namespace hyrecall::cuda
