// Instances of scan_stream and scan_wide for one kind of plane. Compiled for sm_90a alone.
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/scan_wide.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> sm90_bfloat16_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {kPanelQueries, &scan_stream<Bfloat16, true>, &scan_stream<Bfloat16, false>,
       StreamShape::kThreads, StreamShape::kSharedBytes},
      {128, nullptr, &scan_wide<Bfloat16, 128>, WideShape<128>::kThreads,
       WideShape<128>::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
