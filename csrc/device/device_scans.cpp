#include "device/device_scans.hpp"

#include <algorithm>
#include <set>

#include "device/device_library.hpp"
#include "kernels/settings.hpp"
#include "kernels/shared/dense_batch.hpp"

namespace hyrecall::device {

std::vector<ScanVariant> scans_of(std::string const& folder, int ordinal, FirstPassPlane plane,
                                  KernelChoice kernels) {
  std::uint32_t n = 0;
  ScanVariant scans[kMaxScans] = {};
  check(require_library(folder, ordinal).scans(ordinal, plane, kernels, scans, &n), ordinal);
  return {scans, scans + n};
}

std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels) {
  std::set<ScanVariant> found;
  for (FirstPassPlane const plane : {FirstPassPlane::kInt8, FirstPassPlane::kBFloat16}) {
    for (std::uint32_t const generic_only : {kernels.generic_only, 1u}) {
      KernelChoice const choice{.excluded = kernels.excluded, .generic_only = generic_only};
      for (ScanVariant const& scan : scans_of(folder, ordinal, plane, choice)) found.insert(scan);
    }
  }
  std::vector<std::string> names;
  for (ScanVariant const& scan : found) names.push_back(name_of(scan));
  return names;
}

}  // namespace hyrecall::device
