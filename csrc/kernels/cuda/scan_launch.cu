#include <algorithm>

#include "kernels/cuda/max_sim.cuh"
#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

std::span<ScanKernel const> kernels_for(bool is_hopper, FirstPassPlane plane) {
  if (plane == FirstPassPlane::kBFloat16)
    return is_hopper ? sm90_bfloat16_kernels() : generic_bfloat16_kernels();
  return is_hopper ? sm90_int8_kernels() : generic_int8_kernels();
}

// Allows a kernel its shared memory; gives how many CTAs of it run at once.
template <typename Kernel>
unsigned allow(Kernel* kernel, unsigned n_threads, std::size_t bytes, unsigned n_multiprocessors) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  int each = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, static_cast<int>(n_threads),
                                                      bytes));
  return n_multiprocessors * static_cast<unsigned>(std::max(each, 1));
}

}  // namespace

Scanner::Scanner(int device, FirstPassPlane plane, KernelChoice kernels) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device));
  bool const is_hopper = properties.major == 9 && properties.minor == 0;
  n_multiprocessors_ = static_cast<unsigned>(properties.multiProcessorCount);
  most_shared_bytes_ = properties.sharedMemPerBlockOptin;
  overlaps_ = is_hopper && kernels.generic_only == 0;
  // Kernels are loaded when they are first named, which a recording may not allow.
  cudaFuncAttributes unused;
  for (auto* const kernel : {take_queries, prepare_queries, guess_thresholds, prepare_texts,
                             cut_texts, prepare_many, scan_sparse})
    check(cudaFuncGetAttributes(&unused, kernel));
  for (auto* const pick :
       {pick_best<RowKind::kOne>, pick_best<RowKind::kMany>, pick_best<RowKind::kSparse>})
    allow(pick, kSelectThreads, most_shared_bytes_, n_multiprocessors_);
  allow(scan_many, kManyThreads, many_bytes(kStagedChunks), n_multiprocessors_);
  for (bool const has_words : {false, true}) {
    text_ctas_[has_words ? 1 : 0] =
        allow(scan_postings, kTextThreads, text_bytes(has_words), n_multiprocessors_);
  }
  for (bool const is_generic : {false, true}) {
    if (!is_generic && !overlaps_) continue;
    for (ScanKernel const& one : kernels_for(!is_generic, plane)) {
      ScanVariant const scan{plane, one.width, is_generic};
      // Panels come first: without their kernel, wide ones are of no use.
      if (launches_.empty() && one.width > kPanelQueries) continue;
      if (!kernels.allows(scan) || one.shared_bytes > most_shared_bytes_) continue;
      if (one.first != nullptr)
        allow(one.first, one.n_threads, one.shared_bytes, n_multiprocessors_);
      launches_.push_back(
          {one, scan, allow(one.rest, one.n_threads, one.shared_bytes, n_multiprocessors_)});
    }
    if (!launches_.empty()) break;
  }
}

std::uint32_t Scanner::scans(ScanVariant* out) const {
  for (std::size_t i = 0; i < launches_.size(); ++i) out[i] = launches_[i].scan;
  return static_cast<std::uint32_t>(launches_.size());
}

Scanner::Launch const& Scanner::wide(std::uint32_t n_queries) const {
  return *std::find_if(launches_.begin(), launches_.end(),
                       [&](Launch const& one) { return one.scan.width == n_queries; });
}

}  // namespace hyrecall::cuda
