// The one exported function of libhyrecall_cuda, and what it says of the devices.
#include <cstring>

#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/guest.cuh"
#include "kernels/cuda/pool.cuh"
#include "kernels/cuda/search.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/shape.cuh"
#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

Status describe(DeviceTable* out) {
  std::memset(out, 0, sizeof *out);
  cudaRuntimeGetVersion(&out->runtime_version);
  cudaDriverGetVersion(&out->driver_version);
  int n_devices = 0;
  if (cudaError_t const error = cudaGetDeviceCount(&n_devices); error != cudaSuccess)
    return status_of(error);
  for (int i = 0; i < n_devices && i < kMaxDevices; ++i) {
    cudaDeviceProp properties;
    if (cudaError_t const error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess)
      return status_of(error);
    DeviceProperties& device = out->devices[i];
    static_assert(sizeof device.name == sizeof properties.name);
    std::memcpy(device.name, properties.name, sizeof device.name);

    device.major = properties.major;
    device.minor = properties.minor;
    device.memory_bytes = properties.totalGlobalMem;
    device.n_multiprocessors = properties.multiProcessorCount;
    out->n_devices = i + 1;
  }
  return {};
}

constexpr Api kApi{kAbiVersion,      0,
                   &describe,        &run_formulas,
                   &run_dots,        &create_segment,
                   &create_view,     &create_table,
                   &destroy_segment, &destroy_view,
                   &destroy_table,   &measure_usage,
                   &scans,           &search,
                   &create_gate,     &destroy_gate,
                   &read_guest,      &run_pool,
                   &shape_lists,     &create_block,
                   &wait_for_block,  &destroy_block};

}  // namespace
}  // namespace hyrecall::cuda

extern "C" __attribute__((visibility("default"))) hyrecall::cuda::Api const* hyrecall_cuda_api() {
  return &hyrecall::cuda::kApi;
}
