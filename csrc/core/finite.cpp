#include "core/finite.hpp"

#include <bit>
#include <cstdint>

namespace hyrecall {

// Only an exponent of all ones carries into the sign bit. Plain additions, which any compiler takes
// several at a time.
bool all_finite(std::span<float const> values) {
  std::uint32_t carried = 0;
  for (float const value : values)
    carried |= (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) + 0x00800000U;
  return (carried & 0x80000000U) == 0;
}

}  // namespace hyrecall
