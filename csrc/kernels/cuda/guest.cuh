// Tensors of other libraries, read where they lie.
#pragma once

#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {

Status create_gate(std::int32_t device, void** out, std::uint64_t* stream);
void destroy_gate(void* gate);
Status read_guest(ReadParams const* params);

// What comes on the stream from now on finds the tensor as its producer left it.
void wait_for_guest(void* gate, cudaStream_t stream);

}  // namespace hyrecall::cuda
