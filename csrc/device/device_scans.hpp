// Which scanning kernels a device may run under a choice of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/kernel_choice.hpp"

namespace hyrecall::cuda {
struct Api;
}

namespace hyrecall::device {

// Those of each plane; asked for when they are first needed.
class DeviceScans {
 public:
  DeviceScans(cuda::Api const& api, int ordinal, KernelChoice kernels)
      : api_(api), ordinal_(ordinal), kernels_(kernels) {}

  // Whether the choice leaves a kernel for the plane.
  bool has(FirstPassPlane plane) { return !of(plane).empty(); }
  // Throws kOption where it leaves none.
  void require_some(FirstPassPlane plane);
  // How many queries of so many chunks a wide panel holds; 0: there is no kernel for one.
  std::uint32_t wide_queries(FirstPassPlane plane, std::uint32_t n_chunks);

 private:
  std::vector<ScanVariant> const& of(FirstPassPlane plane);

  cuda::Api const& api_;
  int ordinal_;
  KernelChoice kernels_;
  std::map<FirstPassPlane, std::vector<ScanVariant>> known_;
};

// The names of the scans that a device may run under a choice, also those that would run only if
// others were excluded.
std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels);

}  // namespace hyrecall::device
