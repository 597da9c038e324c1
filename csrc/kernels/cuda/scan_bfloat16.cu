// Instances of scan_rows (scan.cuh) for one kind of plane.
#include "kernels/cuda/scan.cuh"
#include "kernels/cuda/scan_launch.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> generic_bfloat16_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {kPanelQueries, &scan_rows<Bfloat16, true>, &scan_rows<Bfloat16, false>, kScanThreads,
       ScanShape::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
