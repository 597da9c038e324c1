// Stands in for the driver's header of the same name: contexts, as csrc/kernels/cuda/context.cu
// asks for them.
#pragma once

using CUdevice = int;
using CUcontext = struct EmulatedContext*;
enum CUresult : int { CUDA_SUCCESS = 0 };
