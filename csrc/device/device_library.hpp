// libhyrecall_cuda.so as this folder's other files use it; its users outside see device.hpp,
// dense_device.hpp and device_segment.hpp.
#pragma once

#include <span>
#include <string>

#include "kernels/shared/abi.hpp"

namespace hyrecall::device {

// Throws kDeviceUnavailable, naming cuda:N, where there is no such library.
cuda::Api const& require_library(std::string const& folder, int ordinal);

// Throws what a failed call says: kDeviceMemory, kInternal or kDeviceUnavailable, naming cuda:N.
void check(cuda::Status const& status, int ordinal);

template <typename T>
cuda::HostArray<T> array(std::span<T const> from) {
  return {from.data(), from.size()};
}

}  // namespace hyrecall::device
