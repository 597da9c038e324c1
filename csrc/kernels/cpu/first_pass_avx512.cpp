// The first pass in one 16-lane register a block: AVX-512 F, BW, VL, DQ.
#include "kernels/cpu/first_pass.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace hyrecall::cpu {
namespace avx512_first_pass {
namespace {

constexpr int kBlocks = 2;
constexpr int kAtOnce = 8;

// As with AVX2 the row gives its magnitude and its sign goes to the query, by a mask.
struct Line {
  __m512i magnitude;
  __mmask64 negative;
  static Line load(std::uint8_t const* from) {
    __m512i const codes =
        _mm512_xor_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(static_cast<char>(0x80)));
    return {_mm512_abs_epi8(codes), _mm512_movepi8_mask(codes)};
  }
};
struct Half {
  __m512i codes;
};
struct Nibbles {
  Half low, high;
  static Nibbles load(std::uint8_t const* from) {
    __m512i const bytes = _mm512_loadu_si512(from);
    __m512i const half = _mm512_set1_epi8(15);
    return {{_mm512_and_si512(bytes, half)}, {_mm512_and_si512(_mm512_srli_epi16(bytes, 4), half)}};
  }
};
struct Quad {
  __m512i codes;
  static Quad load(std::uint8_t const* from) {
    int bits;
    std::memcpy(&bits, from, sizeof bits);
    return {_mm512_set1_epi32(bits)};
  }
};
struct Block {
  __m512 scales, residuals;
  static Block load(float const* scales, float const* residuals) {
    return {_mm512_loadu_ps(scales), _mm512_loadu_ps(residuals)};
  }
};
struct Sums {
  __m512i rows;
  static Sums zero() { return {_mm512_setzero_si512()}; }
  static Sums start(std::int32_t) { return zero(); }
  void add(Line const& line, Quad const& quad) {
    __m512i const signed_codes =
        _mm512_mask_sub_epi8(quad.codes, line.negative, _mm512_setzero_si512(), quad.codes);
    __m512i const pairs = _mm512_maddubs_epi16(line.magnitude, signed_codes);
    rows = _mm512_add_epi32(rows, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  // 2 * 15 * 127 fits 16 bits: nothing saturates.
  void add(Half const& half, Quad const& quad) {
    __m512i const pairs = _mm512_maddubs_epi16(half.codes, quad.codes);
    rows = _mm512_add_epi32(rows, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  void centre(std::int32_t offset) {
    rows = _mm512_add_epi32(_mm512_slli_epi32(rows, 1), _mm512_set1_epi32(offset));
  }
  void join(Sums const& other) { rows = _mm512_add_epi32(rows, other.rows); }
  __m512 reach(Block const& block, float scale, float per_residual) const {
    __m512 const by_row = _mm512_mul_ps(_mm512_cvtepi32_ps(rows), block.scales);
    __m512 const score = _mm512_mul_ps(by_row, _mm512_set1_ps(scale));
    return _mm512_fmadd_ps(block.residuals, _mm512_set1_ps(per_residual), score);
  }
  std::uint32_t passes(Block const& block, float scale, float per_residual, float cut) const {
    __m512 const reached = reach(block, scale, per_residual);
    return _mm512_cmp_ps_mask(reached, _mm512_set1_ps(cut), _CMP_GE_OQ);
  }
  void store_reach(Block const& block, float scale, float per_residual, float* to) const {
    _mm512_storeu_ps(to, reach(block, scale, per_residual));
  }
};

#include "kernels/cpu/first_pass.inl.hpp"
#include "kernels/cpu/nibble_pass.inl.hpp"

}  // namespace
}  // namespace avx512_first_pass

FirstPassKernels avx512_first_pass_kernels() {
  return avx512_first_pass::make_first_pass_kernels("avx512");
}

FirstPassKernels avx512_nibble_pass_kernels() {
  return avx512_first_pass::make_nibble_pass_kernels("avx512, 4 bits");
}

}  // namespace hyrecall::cpu
#endif
