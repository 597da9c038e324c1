// Heads of rows, 16 directions in two registers: AVX2, FMA.
#include "kernels/cpu/head_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx2_head_rows {
namespace {

constexpr int kGroupsAtOnce = 1;

struct Sums {
  __m256 low, high;
  static Sums zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Sums load(float const* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  void add_product(Sums const& directions, float value) {
    __m256 const factor = _mm256_set1_ps(value);
    low = _mm256_fmadd_ps(directions.low, factor, low);
    high = _mm256_fmadd_ps(directions.high, factor, high);
  }
  void add(Sums const& piece) {
    low = _mm256_add_ps(low, piece.low);
    high = _mm256_add_ps(high, piece.high);
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
};

#include "kernels/cpu/head_rows.inl.hpp"

}  // namespace
}  // namespace avx2_head_rows

HeadKernels avx2_head_kernels() {
  return avx2_head_rows::make_head_kernels("avx2");
}

}  // namespace hyrecall::cpu
#endif
