// How rows get their heads at a build: their dots with the directions, and codes of 4 bits. Every
// instruction set gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

inline constexpr std::size_t kHeadGroup = 16;  // directions that lie together

// Elements of a piece of a dot, near the square root of dim: then roundings are fewest.
constexpr std::size_t head_piece(std::size_t dim) {
  std::size_t piece = 16;
  while (2 * piece * piece < dim) piece *= 2;
  return piece;
}

// What a choice of codes gave: the sum of magnitudes times codes, and of the codes' squares.
struct NibbleSums {
  double along;
  std::int64_t length;
};

struct HeadKernels {
  char const* name;
  // out[r][j] = dot of row r and direction j, in float32. Each so many elements (head_piece) are a
  // piece: a chain of fma in rising order from +0. Pieces add in rising order, from +0 too: so an
  // element passes few roundings, see head_row_projection(). rows: [n_rows][dim]; directions:
  // [n_groups][dim][kHeadGroup]; out: [n_rows][n_groups kHeadGroup].
  void (*products)(float const* rows, std::size_t n_rows, std::size_t dim, std::size_t piece,
                   float const* directions, std::size_t n_groups, float* out);
  // out[i] = x[i] * factor.
  void (*scale)(float const* x, std::size_t n, float factor, float* out);
  // The sum of squares, in float64: lane i mod 32 adds in rising order, then lanes fold.
  double (*squares)(float const* x, std::size_t n);
  // Codes of kernels/nibble_code.hpp with so many steps a unit of x.
  NibbleSums (*nibbles)(float const* x, std::size_t n, float per_step, std::int8_t* codes);
  // The sum of squares of x[i] * to_unit - scale * codes[i], as squares().
  double (*left)(float const* x, std::size_t n, double to_unit, float scale,
                 std::int8_t const* codes);
};

}  // namespace hyrecall::cpu
