// Summing and sifting with 8 lanes: AVX2.
#include "kernels/cpu/scores.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx2 {
namespace {

#include "kernels/cpu/scores.inl.hpp"

inline std::uint64_t reach(float const* scores, __m256 threshold) {
  __m256 const hits = _mm256_cmp_ps(_mm256_loadu_ps(scores), threshold, _CMP_GE_OQ);
  return static_cast<std::uint32_t>(_mm256_movemask_ps(hits));
}

std::size_t sift(float* scores, std::size_t n, float threshold, std::uint32_t* places,
                 float* values) {
  __m256 const least = _mm256_set1_ps(threshold);
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < n; begin += kSiftRows) {
    float* const at = scores + begin;
    std::uint64_t hits = 0;
    for (unsigned i = 0; i < kSiftRows; i += 8) hits |= reach(at + i, least) << i;
    for (; hits != 0; hits &= hits - 1) {
      auto const i = static_cast<std::size_t>(__builtin_ctzll(hits));
      places[found] = static_cast<std::uint32_t>(begin + i);
      values[found++] = at[i];
    }
    for (unsigned i = 0; i < kSiftRows; i += 8) _mm256_storeu_ps(at + i, _mm256_setzero_ps());
  }
  return found;
}

}  // namespace
}  // namespace avx2

ScoreKernels avx2_score_kernels() {
  return {&avx2::add_coded, &avx2::sift, &avx2::select_one_by_one};
}

}  // namespace hyrecall::cpu
#endif
