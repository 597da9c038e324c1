// A libhyrecall_cuda.so of a version that never was.
#include "kernels/shared/abi.hpp"

static constexpr hyrecall::cuda::Api kApi{999, 0, nullptr, nullptr, nullptr};

extern "C" __attribute__((visibility("default"))) hyrecall::cuda::Api const* hyrecall_cuda_api() {
  return &kApi;
}
