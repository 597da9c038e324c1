// What the kernels of searches took, where HYRECALL_CUDA_TIMES=1 asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/shared/abi.hpp"

namespace hyrecall::device {

struct KernelTotal {
  std::string name;
  std::uint64_t n_launches;
  double milliseconds;
};

// Any number of threads at once.
void add_kernel_times(cuda::KernelTimes const& times);
// What was added since the last call, in the order in which the kernels first ran.
std::vector<KernelTotal> take_kernel_times();

}  // namespace hyrecall::device
