// One batch on columns of one snapshot, from host arrays to host arrays.
#pragma once

#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

Status search(SearchParams const* params);
Status run_pool(PoolParams const* params);
Status scans(std::int32_t device, FirstPassPlane plane, KernelChoice kernels, ScanVariant* out,
             std::uint32_t* n);

}  // namespace hyrecall::cuda
