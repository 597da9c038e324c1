#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {
namespace {

std::span<ScanKernel const> kernels_for(bool is_hopper, FirstPassPlane plane) {
  if (plane == FirstPassPlane::kBFloat16)
    return is_hopper ? sm90_bfloat16_kernels() : generic_bfloat16_kernels();
  return is_hopper ? sm90_int8_kernels() : generic_int8_kernels();
}

}  // namespace

Scanner::Scanner(int device, FirstPassPlane plane, KernelChoice kernels)
    : lexical_(LexicalScanner::of_device(device)) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device));
  bool const is_hopper = properties.major == 9 && properties.minor == 0;
  n_multiprocessors_ = static_cast<unsigned>(properties.multiProcessorCount);
  most_shared_bytes_ = properties.sharedMemPerBlockOptin;
  overlaps_ = is_hopper && kernels.generic_only == 0;
  check(cudaFuncSetAttribute(pick_best, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(properties.sharedMemPerBlockOptin)));
  // Kernels are loaded when they are first named, which a recording may not allow.
  cudaFuncAttributes unused;
  for (auto* const kernel : {take_queries, prepare_queries, guess_thresholds, cut_texts})
    check(cudaFuncGetAttributes(&unused, kernel));
  for (bool const is_generic : {false, true}) {
    if (!is_generic && (!is_hopper || kernels.generic_only != 0)) continue;
    for (ScanKernel const& one : kernels_for(!is_generic, plane)) {
      ScanVariant const scan{plane, one.width, is_generic};
      // Panels come first: without their kernel, wide ones are of no use.
      if (launches_.empty() && one.width > kPanelQueries) continue;
      if (!kernels.allows(scan) || one.shared_bytes > properties.sharedMemPerBlockOptin) continue;
      for (auto* const kernel : {one.first, one.rest}) {
        if (kernel == nullptr) continue;
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(one.shared_bytes)));
      }
      int per_multiprocessor = 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &per_multiprocessor, one.rest, static_cast<int>(one.n_threads), one.shared_bytes));
      launches_.push_back(
          {one, scan, n_multiprocessors_ * static_cast<unsigned>(std::max(per_multiprocessor, 1))});
    }
    if (!launches_.empty()) break;
  }
}

Scanner const& Scanner::of_device(int device, FirstPassPlane plane, KernelChoice kernels) {
  // Never destroyed: CUDA may be gone before static objects are.
  static auto* const made =
      new std::map<std::tuple<int, FirstPassPlane, KernelChoice>, std::unique_ptr<Scanner>>;
  static auto* const mutex = new std::mutex;
  std::lock_guard const lock(*mutex);
  auto& scanner = (*made)[{device, plane, kernels}];
  if (scanner == nullptr) scanner.reset(new Scanner(device, plane, kernels));
  return *scanner;
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
