// Summing and sifting with 4 lanes: NEON.
#include "kernels/cpu/scores.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace hyrecall::cpu {
namespace neon {
namespace {

#include "kernels/cpu/scores.inl.hpp"

// Which of 16 scores reach the threshold.
inline std::uint64_t reach(float const* scores, float32x4_t threshold) {
  uint32x4_t const first = {1, 2, 4, 8};
  auto const bits = [&](int i) { return vcgeq_f32(vld1q_f32(scores + 4 * i), threshold); };
  uint32x4_t const low =
      vorrq_u32(vandq_u32(bits(0), first), vandq_u32(bits(1), vshlq_n_u32(first, 4)));
  uint32x4_t const high = vorrq_u32(vandq_u32(bits(2), vshlq_n_u32(first, 8)),
                                    vandq_u32(bits(3), vshlq_n_u32(first, 12)));
  return vaddvq_u32(vorrq_u32(low, high));
}

std::size_t sift(float* scores, std::size_t n, float threshold, std::uint32_t* places,
                 float* values) {
  float32x4_t const least = vdupq_n_f32(threshold);
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < n; begin += kSiftRows) {
    float* const at = scores + begin;
    float32x4_t top = vld1q_f32(at);
    for (std::size_t i = 4; i < kSiftRows; i += 4) top = vmaxq_f32(top, vld1q_f32(at + i));
    if (vmaxvq_f32(top) >= threshold) {
      std::uint64_t hits = 0;
      for (unsigned i = 0; i < kSiftRows; i += 16) hits |= reach(at + i, least) << i;
      for (; hits != 0; hits &= hits - 1) {
        auto const i = static_cast<std::size_t>(__builtin_ctzll(hits));
        places[found] = static_cast<std::uint32_t>(begin + i);
        values[found++] = at[i];
      }
    }
    for (std::size_t i = 0; i < kSiftRows; i += 4) vst1q_f32(at + i, vdupq_n_f32(0.0f));
  }
  return found;
}

}  // namespace
}  // namespace neon

ScoreKernels neon_score_kernels() {
  return {&neon::add_coded, &neon::sift, &neon::select_one_by_one};
}

}  // namespace hyrecall::cpu
#endif
