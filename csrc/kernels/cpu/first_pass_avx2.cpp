// The first pass in two 8-lane registers a block: AVX2, FMA.
#include "kernels/cpu/first_pass.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace hyrecall::cpu {
namespace avx2_first_pass {
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
struct Half {
  __m256i low, high;  // codes of rows 0-7, 8-15
};
struct Nibbles {
  Half low, high;
  static Nibbles load(std::uint8_t const* from) {
    auto const* const at = reinterpret_cast<__m256i const*>(from);
    __m256i const first = _mm256_loadu_si256(at);
    __m256i const second = _mm256_loadu_si256(at + 1);
    __m256i const half = _mm256_set1_epi8(15);
    return {{_mm256_and_si256(first, half), _mm256_and_si256(second, half)},
            {_mm256_and_si256(_mm256_srli_epi16(first, 4), half),
             _mm256_and_si256(_mm256_srli_epi16(second, 4), half)}};
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
struct Block {
  __m256 low_scales, high_scales, low_residuals, high_residuals;
  static Block load(float const* scales, float const* residuals) {
    return {_mm256_loadu_ps(scales), _mm256_loadu_ps(scales + 8), _mm256_loadu_ps(residuals),
            _mm256_loadu_ps(residuals + 8)};
  }
};
struct Sums {
  __m256i low, high;
  static Sums zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Sums start(std::int32_t) { return zero(); }
  static __m256i product(__m256i row, __m256i query) {
    __m256i const pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(row), _mm256_sign_epi8(query, row));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  void add(Line const& line, Quad const& quad) {
    low = _mm256_add_epi32(low, product(line.low, quad.codes));
    high = _mm256_add_epi32(high, product(line.high, quad.codes));
  }
  // 2 * 15 * 127 fits 16 bits: nothing saturates.
  void add(Half const& half, Quad const& quad) {
    __m256i const ones = _mm256_set1_epi16(1);
    low =
        _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_maddubs_epi16(half.low, quad.codes), ones));
    high = _mm256_add_epi32(high,
                            _mm256_madd_epi16(_mm256_maddubs_epi16(half.high, quad.codes), ones));
  }
  void centre(std::int32_t offset) {
    __m256i const by = _mm256_set1_epi32(offset);
    low = _mm256_add_epi32(_mm256_slli_epi32(low, 1), by);
    high = _mm256_add_epi32(_mm256_slli_epi32(high, 1), by);
  }
  void join(Sums const& other) {
    low = _mm256_add_epi32(low, other.low);
    high = _mm256_add_epi32(high, other.high);
  }
  static __m256 half(__m256i dots, __m256 scales, __m256 residuals, float scale,
                     float per_residual) {
    __m256 const by_row = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), scales);
    __m256 const score = _mm256_mul_ps(by_row, _mm256_set1_ps(scale));
    return _mm256_fmadd_ps(residuals, _mm256_set1_ps(per_residual), score);
  }
  __m256 low_reach(Block const& block, float scale, float per_residual) const {
    return half(low, block.low_scales, block.low_residuals, scale, per_residual);
  }
  __m256 high_reach(Block const& block, float scale, float per_residual) const {
    return half(high, block.high_scales, block.high_residuals, scale, per_residual);
  }
  std::uint32_t passes(Block const& block, float scale, float per_residual, float cut) const {
    __m256 const cuts = _mm256_set1_ps(cut);
    auto const bits = [&](__m256 reached) {
      return static_cast<std::uint32_t>(
          _mm256_movemask_ps(_mm256_cmp_ps(reached, cuts, _CMP_GE_OQ)));
    };
    return bits(low_reach(block, scale, per_residual)) |
           bits(high_reach(block, scale, per_residual)) << 8;
  }
  void store_reach(Block const& block, float scale, float per_residual, float* to) const {
    _mm256_storeu_ps(to, low_reach(block, scale, per_residual));
    _mm256_storeu_ps(to + 8, high_reach(block, scale, per_residual));
  }
};

#include "kernels/cpu/first_pass.inl.hpp"
#include "kernels/cpu/nibble_pass.inl.hpp"

}  // namespace
}  // namespace avx2_first_pass

FirstPassKernels avx2_first_pass_kernels() {
  return avx2_first_pass::make_first_pass_kernels("avx2");
}

FirstPassKernels avx2_nibble_pass_kernels() {
  return avx2_first_pass::make_nibble_pass_kernels("avx2, 4 bits");
}

}  // namespace hyrecall::cpu
#endif
