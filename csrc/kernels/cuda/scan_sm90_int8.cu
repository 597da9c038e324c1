// Instances of scan_rows_sm90 (scan_sm90.cuh) for one kind of plane. Compiled for sm_90a alone.
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/scan_sm90.cuh"

namespace hyrecall::cuda {

std::span<ScanKernel const> sm90_int8_kernels() {
  static constexpr ScanKernel kKernels[] = {
      {8, &scan_rows_sm90<Int8, 8>, Sm90Shape<8>::kThreads, Sm90Shape<8>::kSharedBytes},
      {32, &scan_rows_sm90<Int8, 32>, Sm90Shape<32>::kThreads, Sm90Shape<32>::kSharedBytes},
      {128, &scan_rows_sm90<Int8, 128>, Sm90Shape<128>::kThreads, Sm90Shape<128>::kSharedBytes},
      {256, &scan_rows_sm90<Int8, 256>, Sm90Shape<256>::kThreads, Sm90Shape<256>::kSharedBytes},
  };
  return kKernels;
}

}  // namespace hyrecall::cuda
