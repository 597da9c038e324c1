// The canonical dot in eight 4-lane registers: NEON, which every aarch64 has.
#include "kernels/cpu/dot.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace hyrecall::cpu {
namespace neon {
namespace {

constexpr int kRowsAtOnce = 1;  // of two rows GCC 12 stores the sums at each step

struct Half;
struct Brain;

struct Lanes {
  float32x4_t part[8];  // lanes 0-3, 4-7, ... 28-31

  static Lanes zero() {
    Lanes out;
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) out.part[p] = vdupq_n_f32(0.0f);
    return out;
  }
  static Lanes load(float const* from) {
    Lanes out;
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) out.part[p] = vld1q_f32(from + 4 * p);
    return out;
  }
  static Lanes load(Half const* from) {
    auto const* bits = reinterpret_cast<std::uint16_t const*>(from);
    Lanes out;
#pragma GCC unroll 8
    for (int p = 0; p < 8; p += 2) {
      float16x8_t const eight = vreinterpretq_f16_u16(vld1q_u16(bits + 4 * p));
      out.part[p] = vcvt_f32_f16(vget_low_f16(eight));
      out.part[p + 1] = vcvt_high_f32_f16(eight);
    }
    return out;
  }
  static Lanes load(Brain const* from) {
    auto const* bits = reinterpret_cast<std::uint16_t const*>(from);
    Lanes out;
#pragma GCC unroll 8
    for (int p = 0; p < 8; p += 2) {
      uint16x8_t const eight = vld1q_u16(bits + 4 * p);
      out.part[p] = widen(vmovl_u16(vget_low_u16(eight)));
      out.part[p + 1] = widen(vmovl_high_u16(eight));
    }
    return out;
  }
  static float32x4_t widen(uint32x4_t bits) { return vreinterpretq_f32_u32(vshlq_n_u32(bits, 16)); }
  void add_product(Lanes const& a, Lanes const& b) {
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) part[p] = vfmaq_f32(part[p], a.part[p], b.part[p]);
  }
  float fold() const {
    float32x4_t sixteen[4];
#pragma GCC unroll 8
    for (int p = 0; p < 4; ++p) sixteen[p] = vaddq_f32(part[p], part[p + 4]);
    float32x4_t const four =
        vaddq_f32(vaddq_f32(sixteen[0], sixteen[2]), vaddq_f32(sixteen[1], sixteen[3]));
    float32x2_t const two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
};

#include "kernels/cpu/dot.inl.hpp"

}  // namespace
}  // namespace neon

DotKernels neon_dot_kernels() {
  return neon::make_kernels();
}

}  // namespace hyrecall::cpu
#endif
