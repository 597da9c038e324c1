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

// Widths of the panels that they take, per plane; asked for when they are first needed.
class PanelWidths {
 public:
  PanelWidths(cuda::Api const& api, int ordinal, KernelChoice kernels)
      : api_(api), ordinal_(ordinal), kernels_(kernels) {}

  // Rising; empty where the choice leaves no kernel.
  std::vector<std::uint32_t> const& of(FirstPassPlane plane);
  // The same, at least one. Throws kOption otherwise.
  std::vector<std::uint32_t> const& some_of(FirstPassPlane plane);

 private:
  cuda::Api const& api_;
  int ordinal_;
  KernelChoice kernels_;
  std::map<FirstPassPlane, std::vector<std::uint32_t>> known_;
};

// The names of the scans that a device may run under a choice, also those that would run only if
// others were excluded.
std::vector<std::string> scans(std::string const& folder, int ordinal, KernelChoice kernels);

}  // namespace hyrecall::device
