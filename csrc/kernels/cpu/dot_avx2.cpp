// The canonical dot in four 8-lane registers: AVX2, FMA, F16C.
#include "kernels/cpu/dot.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx2 {
namespace {

constexpr int kRowsAtOnce = 4;

struct Half;
struct Brain;

struct Lanes {
  __m256 part[4];  // lanes 0-7, 8-15, 16-23, 24-31

  static Lanes zero() {
    return {{_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()}};
  }
  static Lanes load(float const* from) {
    return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8), _mm256_loadu_ps(from + 16),
             _mm256_loadu_ps(from + 24)}};
  }
  static Lanes load(Half const* from) {
    auto const* bits = reinterpret_cast<__m128i const*>(from);
    return {{_mm256_cvtph_ps(_mm_loadu_si128(bits)), _mm256_cvtph_ps(_mm_loadu_si128(bits + 1)),
             _mm256_cvtph_ps(_mm_loadu_si128(bits + 2)),
             _mm256_cvtph_ps(_mm_loadu_si128(bits + 3))}};
  }
  static Lanes load(Brain const* from) {
    auto const* bits = reinterpret_cast<__m128i const*>(from);
    return {{widen(bits), widen(bits + 1), widen(bits + 2), widen(bits + 3)}};
  }
  static __m256 widen(__m128i const* bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(bits)), 16));
  }
  void add_product(Lanes const& a, Lanes const& b) {
    for (int p = 0; p < 4; ++p) part[p] = _mm256_fmadd_ps(a.part[p], b.part[p], part[p]);
  }
  float fold() const {
    __m256 const low = _mm256_add_ps(part[0], part[2]);
    __m256 const high = _mm256_add_ps(part[1], part[3]);
    __m256 const eight = _mm256_add_ps(low, high);
    __m128 const four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 const two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#include "kernels/cpu/dot.inl.hpp"

}  // namespace
}  // namespace avx2

DotKernels avx2_dot_kernels() {
  return avx2::make_kernels();
}

}  // namespace hyrecall::cpu
#endif
