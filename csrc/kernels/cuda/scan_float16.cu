// Instances of scan_rows (scan.cuh) for one kind of plane.
#include "kernels/cuda/scan.cuh"
#include "kernels/cuda/scan_launch.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> generic_float16_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {8, &scan_rows<Float16, 8>, kScanThreads, ScanShape<8>::kSharedBytes},
      {32, &scan_rows<Float16, 32>, kScanThreads, ScanShape<32>::kSharedBytes},
      {64, &scan_rows<Float16, 64>, kScanThreads, ScanShape<64>::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
