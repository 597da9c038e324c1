// Summing and sifting with 16 lanes: AVX-512.
#include "kernels/cpu/scores.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx512 {
namespace {

#include "kernels/cpu/scores.inl.hpp"

std::size_t sift(float* scores, std::size_t n, float threshold, std::uint32_t* places,
                 float* values) {
  __m512 const least = _mm512_set1_ps(threshold);
  __m512i const lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < n; begin += kSiftRows) {
    float* const at = scores + begin;
    __m512 row[4];
    for (int i = 0; i < 4; ++i) row[i] = _mm512_loadu_ps(at + 16 * i);
    for (int i = 0; i < 4; ++i) _mm512_storeu_ps(at + 16 * i, _mm512_setzero_ps());
    __m512 const top = _mm512_max_ps(_mm512_max_ps(row[0], row[1]), _mm512_max_ps(row[2], row[3]));
    if (_mm512_cmp_ps_mask(top, least, _CMP_GE_OQ) == 0) continue;
    for (int i = 0; i < 4; ++i) {
      __mmask16 const hits = _mm512_cmp_ps_mask(row[i], least, _CMP_GE_OQ);
      __m512i const place =
          _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(begin) + 16 * i));
      // Whole registers: a store under a mask is slower, and there is room for it.
      _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi32(hits, place));
      _mm512_storeu_ps(values + found, _mm512_maskz_compress_ps(hits, row[i]));
      found += static_cast<std::size_t>(__builtin_popcount(hits));
    }
  }
  return found;
}

}  // namespace
}  // namespace avx512

ScoreKernels avx512_score_kernels() {
  return {Isa::kAvx512, &avx512::add_coded, &avx512::sift};
}

}  // namespace hyrecall::cpu
#endif
