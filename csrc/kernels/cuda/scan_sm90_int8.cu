// Instances of scan_rows_sm90 and scan_wide_sm90 for one kind of plane. Compiled for sm_90a alone.
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/scan_wide.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> sm90_int8_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {kPanelQueries, &scan_rows_sm90<Int8, true>, &scan_rows_sm90<Int8, false>,
       StreamShape::kThreads, StreamShape::kSharedBytes},
      {128, nullptr, &scan_wide_sm90<Int8, 128>, WideShape<128>::kThreads,
       WideShape<128>::kSharedBytes},
      {256, nullptr, &scan_wide_sm90<Int8, 256>, WideShape<256>::kThreads,
       WideShape<256>::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
