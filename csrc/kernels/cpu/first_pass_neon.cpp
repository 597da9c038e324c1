// The first pass with NEON, which every aarch64 has: products of bytes to 16 bits.
#include "kernels/cpu/first_pass.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace hyrecall::cpu {
namespace neon_first_pass {
namespace {

// A pair of products has room in 16 bits (2 * 127 * 127), all four have not.
inline int32x4_t add_products(int32x4_t sums, int8x16_t rows, int8x16_t query) {
  int16x8_t const low = vmull_s8(vget_low_s8(rows), vget_low_s8(query));
  int16x8_t const high = vmull_high_s8(rows, query);
  return vpadalq_s16(sums, vpaddq_s16(low, high));
}

#include "kernels/cpu/neon_rows.inl.hpp"
//
#include "kernels/cpu/first_pass.inl.hpp"
#include "kernels/cpu/nibble_pass.inl.hpp"

}  // namespace
}  // namespace neon_first_pass

FirstPassKernels neon_first_pass_kernels() {
  return neon_first_pass::make_first_pass_kernels("neon");
}

FirstPassKernels neon_nibble_pass_kernels() {
  return neon_first_pass::make_nibble_pass_kernels("neon, 4 bits");
}

}  // namespace hyrecall::cpu
#endif
