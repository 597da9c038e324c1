// Four numbers that are read and written together, 16 bytes.
#pragma once

#include <cstdint>

namespace hyrecall::cuda {

struct alignas(16) FourFloats {
  float values[4];
};
struct alignas(16) FourWords {
  std::uint32_t values[4];
};

}  // namespace hyrecall::cuda
