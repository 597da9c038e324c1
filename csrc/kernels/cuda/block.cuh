// Memory on a device that belongs to a caller of the index.
#pragma once

#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {

Status create_block(BlockParams const* params, void** out, void** data);
Status wait_for_block(void const* block, std::uint64_t stream);
void destroy_block(void* block);

}  // namespace hyrecall::cuda
