// Instances of scan_rows_sm90 and scan_wide_sm90 for one kind of plane. Compiled for sm_90a alone.
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/scan_wide.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> sm90_bfloat16_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {kPanelQueries, &scan_rows_sm90<Bfloat16, true>, &scan_rows_sm90<Bfloat16, false>,
       StreamShape::kThreads, StreamShape::kSharedBytes},
      {128, nullptr, &scan_wide_sm90<Bfloat16, 128>, WideShape<128>::kThreads,
       WideShape<128>::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
