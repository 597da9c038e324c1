// The first pass in two 8-lane registers a block: AVX2, FMA.
#include "kernels/cpu/front.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace hyrecall::cpu {
namespace avx2_front {
namespace {

constexpr int kBlocks = 1;
constexpr int kAtOnce = 4;  // 8 sums and 4 registers of rows fit 16 registers

// Products of bytes are added in pairs in 16 bits and saturate: 255 * 127 * 2 does not fit,
// 127 * 127 * 2 does. So the row gives its magnitude, and its sign goes to the query.
struct Line {
  __m256i low, high;  // signed codes of rows 0-7, 8-15
  static Line load(std::uint8_t const* from) {
    __m256i const offset = _mm256_set1_epi8(static_cast<char>(0x80));
    auto const* const at = reinterpret_cast<__m256i const*>(from);
    return {_mm256_xor_si256(_mm256_loadu_si256(at), offset),
            _mm256_xor_si256(_mm256_loadu_si256(at + 1), offset)};
  }
};
struct Quad {
  __m256i codes;
  static Quad load(std::uint8_t const* from) {
    int bits;
    std::memcpy(&bits, from, sizeof bits);
    return {_mm256_set1_epi32(bits)};
  }
};
struct Sums {
  __m256i low, high;
  static Sums zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static __m256i product(__m256i row, __m256i query) {
    __m256i const pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(row), _mm256_sign_epi8(query, row));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  void add(Line const& line, Quad const& quad) {
    low = _mm256_add_epi32(low, product(line.low, quad.codes));
    high = _mm256_add_epi32(high, product(line.high, quad.codes));
  }
  void join(Sums const& other) {
    low = _mm256_add_epi32(low, other.low);
    high = _mm256_add_epi32(high, other.high);
  }
  static std::uint32_t half(__m256i dots, float const* scales, float const* residuals, float scale,
                            float per_residual, float cut, float* reach) {
    __m256 const by_row = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), _mm256_loadu_ps(scales));
    __m256 const score = _mm256_mul_ps(by_row, _mm256_set1_ps(scale));
    __m256 const reached =
        _mm256_fmadd_ps(_mm256_loadu_ps(residuals), _mm256_set1_ps(per_residual), score);
    _mm256_storeu_ps(reach, reached);
    __m256 const passed = _mm256_cmp_ps(reached, _mm256_set1_ps(cut), _CMP_GE_OQ);
    return static_cast<std::uint32_t>(_mm256_movemask_ps(passed));
  }
  std::uint32_t passes(std::int32_t, float const* scales, float const* residuals, float scale,
                       float per_residual, float cut, float* reach) const {
    return half(low, scales, residuals, scale, per_residual, cut, reach) |
           half(high, scales + 8, residuals + 8, scale, per_residual, cut, reach + 8) << 8;
  }
};

#include "kernels/cpu/front.inl.hpp"

}  // namespace
}  // namespace avx2_front

FrontKernels avx2_front_kernels() {
  return avx2_front::make_front_kernels("avx2");
}

}  // namespace hyrecall::cpu
#endif
