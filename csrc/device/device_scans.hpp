// Which scanning kernels a device may run under a choice of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_choice.hpp"

namespace hyrecall::device {

// Those of a plane, by rising width.
std::vector<ScanVariant> scans_of(std::string const& folder, int ordinal, FirstPassPlane plane,
                                  KernelChoice kernels);

// The names of the scans that a device may run under a choice, also those that would run only if
// others were excluded.
std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels);

}  // namespace hyrecall::device
