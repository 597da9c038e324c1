// Summing, sifting and picking with 16 lanes: AVX-512.
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

std::size_t select_coded(std::uint8_t const* postings, std::size_t n, std::uint64_t const* words,
                         std::uint8_t* out) {
  // Three dwords and a fourth that is not looked at to each quarter, there three bytes to a lane;
  // and the same way back.
  __m512i const apart = _mm512_setr_epi32(0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12);
  __m512i const widen =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
  __m512i const narrow =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  __m512i const join = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
  __m512i const in_word = _mm512_set1_epi32(31);
  __m512i const last_word = _mm512_set1_epi32((1 << (kCodedBits - 5)) - 1);
  __m512i const one = _mm512_set1_epi32(1);
  std::uint8_t* to = out;
  for (std::size_t left = n; left > 0;) {
    std::size_t const here = left < 16 ? left : 16;
    __m512i const raw = _mm512_maskz_loadu_epi8((std::uint64_t{1} << 3 * here) - 1, postings);
    __m512i const bits = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(apart, raw), widen);
    __m512i const word = _mm512_and_si512(_mm512_srli_epi32(bits, 5), last_word);
    __m512i const kept = _mm512_i32gather_epi32(word, words, 4);
    __m512i const bit = _mm512_sllv_epi32(one, _mm512_and_si512(bits, in_word));
    auto const hits = static_cast<__mmask16>(_mm512_test_epi32_mask(kept, bit) &
                                             ((std::uint32_t{1} << here) - 1));
    __m512i const some = _mm512_shuffle_epi8(_mm512_maskz_compress_epi32(hits, bits), narrow);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(join, some));
    to += 3 * static_cast<std::size_t>(__builtin_popcount(hits));
    postings += 3 * here;
    left -= here;
  }
  return static_cast<std::size_t>(to - out) / 3;
}

}  // namespace
}  // namespace avx512

ScoreKernels avx512_score_kernels() {
  return {&avx512::add_coded, &avx512::sift, &avx512::select_coded};
}

}  // namespace hyrecall::cpu
#endif
