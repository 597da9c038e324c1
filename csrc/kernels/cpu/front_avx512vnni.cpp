// The first pass with AVX-512 VNNI: four products of unsigned row bytes and signed query codes in
// one instruction, without saturation.
#include "kernels/cpu/front.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace hyrecall::cpu {
namespace avx512vnni_front {
namespace {

constexpr int kBlocks = 2;
constexpr int kAtOnce = 8;

struct Line {
  __m512i bytes;  // code + 128
  static Line load(std::uint8_t const* from) { return {_mm512_loadu_si512(from)}; }
};
struct Quad {
  __m512i codes;
  static Quad load(std::uint8_t const* from) {
    int bits;
    std::memcpy(&bits, from, sizeof bits);
    return {_mm512_set1_epi32(bits)};
  }
};
struct Sums {
  __m512i rows;
  static Sums zero() { return {_mm512_setzero_si512()}; }
  void add(Line const& line, Quad const& quad) {
    rows = _mm512_dpbusd_epi32(rows, line.bytes, quad.codes);
  }
  void join(Sums const& other) { rows = _mm512_add_epi32(rows, other.rows); }
  static std::uint32_t passes_of(__m512i dots, float const* scales, float const* residuals,
                                 float scale, float per_residual, float cut, float* reach) {
    __m512 const by_row = _mm512_mul_ps(_mm512_cvtepi32_ps(dots), _mm512_loadu_ps(scales));
    __m512 const score = _mm512_mul_ps(by_row, _mm512_set1_ps(scale));
    __m512 const reached =
        _mm512_fmadd_ps(_mm512_loadu_ps(residuals), _mm512_set1_ps(per_residual), score);
    __mmask16 const passed = _mm512_cmp_ps_mask(reached, _mm512_set1_ps(cut), _CMP_GE_OQ);
    if (passed != 0) _mm512_storeu_ps(reach, reached);
    return passed;
  }
  // The offset of the rows' bytes is 128 times the sum of the query's codes; sums wrap, so they are
  // right wherever the dot itself fits.
  std::uint32_t passes(std::int32_t sum, float const* scales, float const* residuals, float scale,
                       float per_residual, float cut, float* reach) const {
    __m512i const dots = _mm512_sub_epi32(rows, _mm512_slli_epi32(_mm512_set1_epi32(sum), 7));
    return passes_of(dots, scales, residuals, scale, per_residual, cut, reach);
  }
};

#include "kernels/cpu/front.inl.hpp"

}  // namespace
}  // namespace avx512vnni_front

FrontKernels avx512vnni_front_kernels() {
  return avx512vnni_front::make_front_kernels("avx512vnni");
}

}  // namespace hyrecall::cpu
#endif
