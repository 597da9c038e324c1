// Heads of rows, 16 directions in four registers: NEON.
#include "kernels/cpu/head_rows.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace hyrecall::cpu {
namespace neon_head_rows {
namespace {

constexpr int kGroupsAtOnce = 1;  // 16 sums of four rows and 4 registers of directions

struct Sums {
  float32x4_t part[4];
  static Sums zero() {
    float32x4_t const none = vdupq_n_f32(0.0f);
    return {{none, none, none, none}};
  }
  static Sums load(float const* from) {
    return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
  }
  void add_product(Sums const& directions, float value) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) part[p] = vfmaq_n_f32(part[p], directions.part[p], value);
  }
  void add(Sums const& piece) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) part[p] = vaddq_f32(part[p], piece.part[p]);
  }
  void store(float* to) const {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) vst1q_f32(to + 4 * p, part[p]);
  }
};

#include "kernels/cpu/head_rows.inl.hpp"

}  // namespace
}  // namespace neon_head_rows

HeadKernels neon_head_kernels() {
  return neon_head_rows::make_head_kernels("neon");
}

}  // namespace hyrecall::cpu
#endif
