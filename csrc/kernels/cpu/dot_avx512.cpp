// The canonical dot in two 16-lane registers: AVX-512 F, BW, VL, DQ.
#include "kernels/cpu/dot.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx512 {
namespace {

constexpr int kRowsAtOnce = 4;

struct Half;
struct Brain;

struct Lanes {
  __m512 low;   // lanes 0-15
  __m512 high;  // lanes 16-31

  static Lanes zero() { return {_mm512_setzero_ps(), _mm512_setzero_ps()}; }
  static Lanes load(float const* from) {
    return {_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16)};
  }
  static Lanes load(Half const* from) {
    auto const* bits = reinterpret_cast<__m256i const*>(from);
    return {_mm512_cvtph_ps(_mm256_loadu_si256(bits)),
            _mm512_cvtph_ps(_mm256_loadu_si256(bits + 1))};
  }
  static Lanes load(Brain const* from) {
    auto const* bits = reinterpret_cast<__m256i const*>(from);
    return {widen(bits), widen(bits + 1)};
  }
  static __m512 widen(__m256i const* bits) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(bits)), 16));
  }
  void add_product(Lanes const& a, Lanes const& b) {
    low = _mm512_fmadd_ps(a.low, b.low, low);
    high = _mm512_fmadd_ps(a.high, b.high, high);
  }
  float fold() const {
    __m512 const sixteen = _mm512_add_ps(low, high);
    __m256 const eight =
        _mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1));
    __m128 const four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 const two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#include "kernels/cpu/dot.inl.hpp"

}  // namespace
}  // namespace avx512

DotKernels avx512_dot_kernels() {
  return avx512::make_kernels();
}

}  // namespace hyrecall::cpu
#endif
