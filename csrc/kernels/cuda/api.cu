// The one exported function of libhyrecall_cuda, and what it says of the devices.
#include <cstring>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

Status describe(DeviceTable* out) {
  std::memset(out, 0, sizeof *out);
  cudaRuntimeGetVersion(&out->runtime_version);
  cudaDriverGetVersion(&out->driver_version);
  return guarded([out] {
    int n_devices = 0;
    check(cudaGetDeviceCount(&n_devices));
    for (int i = 0; i < n_devices && i < kMaxDevices; ++i) {
      cudaDeviceProp properties;
      check(cudaGetDeviceProperties(&properties, i));
      DeviceProperties& device = out->devices[i];
      static_assert(sizeof device.name == sizeof properties.name);
      std::memcpy(device.name, properties.name, sizeof device.name);
      device.major = properties.major;
      device.minor = properties.minor;
      device.memory_bytes = properties.totalGlobalMem;
      device.n_multiprocessors = properties.multiProcessorCount;
      out->n_devices = i + 1;
    }
  });
}

constexpr Api kApi{kAbiVersion,   0,
                   &describe,     &run_formulas,
                   &run_dots,     &create_segment,
                   &create_view,  &create_table,
                   &destroy,      &segment_bytes,
                   &scans,        &search,
                   &create_gate,  &read_guest,
                   &run_pool,     &shape_lists,
                   &create_block, &wait_for_block};

}  // namespace
}  // namespace hyrecall::cuda

extern "C" __attribute__((visibility("default"))) hyrecall::cuda::Api const* hyrecall_cuda_api() {
  return &hyrecall::cuda::kApi;
}
