// One batch on one column of one snapshot, from host arrays to host arrays.
#pragma once

#include "kernels/cuda/abi.hpp"

namespace hyrecall::cuda {

Status search(SearchParams const* params);
Status panel_widths(std::int32_t device, std::uint32_t* out, std::uint32_t* n);

}  // namespace hyrecall::cuda
