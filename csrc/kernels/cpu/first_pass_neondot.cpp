// The first pass with the dot products of bytes that ARMv8.2 has (sdot).
#include "kernels/cpu/first_pass.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace hyrecall::cpu {
namespace neondot_first_pass {
namespace {

inline int32x4_t add_products(int32x4_t sums, int8x16_t rows, int8x16_t query) {
  return vdotq_s32(sums, rows, query);
}

#include "kernels/cpu/neon_rows.inl.hpp"
//
#include "kernels/cpu/first_pass.inl.hpp"
#include "kernels/cpu/nibble_pass.inl.hpp"

}  // namespace
}  // namespace neondot_first_pass

FirstPassKernels neondot_first_pass_kernels() {
  return neondot_first_pass::make_first_pass_kernels("neondot");
}

FirstPassKernels neondot_nibble_pass_kernels() {
  return neondot_first_pass::make_nibble_pass_kernels("neondot, 4 bits");
}

}  // namespace hyrecall::cpu
#endif
