// Heads of rows, 16 directions in one register: AVX-512 F.
#include "kernels/cpu/head_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hyrecall::cpu {
namespace avx512_head_rows {
namespace {

constexpr int kGroupsAtOnce = 4;

struct Sums {
  __m512 dots;
  static Sums zero() { return {_mm512_setzero_ps()}; }
  static Sums load(float const* from) { return {_mm512_loadu_ps(from)}; }
  void add_product(Sums const& directions, float value) {
    dots = _mm512_fmadd_ps(directions.dots, _mm512_set1_ps(value), dots);
  }
  void add(Sums const& piece) { dots = _mm512_add_ps(dots, piece.dots); }
  void store(float* to) const { _mm512_storeu_ps(to, dots); }
};

#include "kernels/cpu/head_rows.inl.hpp"

}  // namespace
}  // namespace avx512_head_rows

HeadKernels avx512_head_kernels() {
  return avx512_head_rows::make_head_kernels("avx512");
}

}  // namespace hyrecall::cpu
#endif
