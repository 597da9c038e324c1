#include "device/device_scans.hpp"

#include <algorithm>
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
  ScanVariant scans[kMaxScans] = {};
  check(api.scans(ordinal, plane, kernels, scans, &n), ordinal);
  return {scans, scans + n};
}

}  // namespace

std::vector<ScanVariant> const& DeviceScans::of(FirstPassPlane plane) {
  auto const [at, is_new] = known_.try_emplace(plane);
  if (is_new) at->second = allowed_scans(api_, ordinal_, plane, kernels_);
  return at->second;
}

void DeviceScans::require_some(FirstPassPlane plane) {
  if (has(plane)) return;
  std::string const name = name_of({plane, kPanelQueries, true});
  throw Error(ErrorCode::kOption, "HYRECALL_CUDA_KERNELS",
              "expected at least one kernel for " + name.substr(0, name.find(':')) +
                  ", got a value that excludes all of them");
}

std::uint32_t DeviceScans::wide_queries(FirstPassPlane plane, std::uint32_t n_chunks) {
  std::uint32_t most = 0;
  for (ScanVariant const& scan : of(plane)) {
    bool const is_wide = scan.width > kPanelQueries && n_chunks <= most_wide_chunks(scan.width);
    if (is_wide) most = std::max(most, scan.width);
  }
  return most;
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
