// Which tiles of a scope are read first, and what is guessed of them.
//
// A scope has a stride: the tiles whose numbers are its multiples are read first. Stride 1: these
// are all, and the scope has few; each row's score has a place of its own. A greater stride, a
// power of 2: they are a sample. Of each 16 rows the best score is kept, and the j-th best of
// these is a guess at the threshold, from which all tiles are read. Stride 0: nothing is read
// first. A text's threshold is no guess but the depth-th best score of its first tiles, which are
// not read again.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/formulas.hpp"

namespace hyrecall {

// Rows of which a sample keeps the best score: those of a warp.
inline constexpr std::uint32_t kSampleRows = 16;

// The first multiple from `value` on.
HYRECALL_HD inline std::uint32_t next_multiple(std::uint32_t value, std::uint32_t stride) {
  return (value + stride - 1) / stride * stride;
}
HYRECALL_HD inline std::uint32_t n_multiples(std::uint32_t begin, std::uint32_t end,
                                             std::uint32_t stride) {
  return (end + stride - 1) / stride - (begin + stride - 1) / stride;
}

// Which of a sample's scores is the guess, where it holds `mean` of the best `depth` rows on
// average, as Poisson has it. The guess is too high if it holds at least so many of them: that
// happens to fewer than one query in 10,000. Rows that lie close together make it rarer, since of
// 16 rows one counts. A pass that is made again costs more than the rows that a lower guess lets
// pass (docs/kernels/dense.md).
inline std::uint32_t guess_rank(double mean) {
  return static_cast<std::uint32_t>(std::ceil(mean + 3.5 * std::sqrt(mean) + 3.0));
}

}  // namespace hyrecall
