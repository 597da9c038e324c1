#include "device/device_scans.hpp"

#include <set>

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "kernels/settings.hpp"
#include "kernels/shared/dense_batch.hpp"

namespace hyrecall::device {
namespace {

std::vector<ScanVariant> allowed_scans(cuda::Api const& api, int ordinal, FirstPassPlane plane,
                                       KernelChoice kernels) {
  std::uint32_t n = 0;
  ScanVariant scans[kMaxWidths] = {};
  check(api.scans(ordinal, plane, kernels, scans, &n), ordinal);
  return {scans, scans + n};
}

}  // namespace

std::vector<std::uint32_t> const& PanelWidths::of(FirstPassPlane plane) {
  auto const [at, is_new] = known_.try_emplace(plane);
  if (is_new) {
    for (ScanVariant const& scan : allowed_scans(api_, ordinal_, plane, kernels_))
      at->second.push_back(scan.width);
  }
  return at->second;
}

std::vector<std::uint32_t> const& PanelWidths::some_of(FirstPassPlane plane) {
  std::vector<std::uint32_t> const& found = of(plane);
  if (found.empty()) {
    std::string const name = name_of({plane, 8, true});
    throw Error(ErrorCode::kOption, "HYRECALL_CUDA_KERNELS",
                "expected at least one kernel for " + name.substr(0, name.find(':')) +
                    ", got a value that excludes all of them");
  }
  return found;
}

std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels) {
  cuda::Api const& api = require_library(folder, ordinal);
  std::set<ScanVariant> found;
  for (FirstPassPlane const plane : {FirstPassPlane::kInt8, FirstPassPlane::kBFloat16}) {
    for (std::uint32_t const generic_only : {kernels.generic_only, 1u}) {
      KernelChoice const choice{.excluded = kernels.excluded, .generic_only = generic_only};
      for (ScanVariant const& scan : allowed_scans(api, ordinal, plane, choice)) found.insert(scan);
    }
  }
  std::vector<std::string> names;
  for (ScanVariant const& scan : found) names.push_back(name_of(scan));
  return names;
}

}  // namespace hyrecall::device
