// Looks for values that are no numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace hyrecall {

// Whether no value is NaN or infinite.
inline bool all_finite(std::span<float const> values) {
  std::uint32_t most = 0;  // of the bits without the sign: an exponent of all ones is above
  for (float const value : values)
    most = std::max(most, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  return most < 0x7f800000U;
}

}  // namespace hyrecall
