// A row of a plane of 4 bits: codes are the odd numbers from -15 to 15, so 16 values lie evenly
// around 0, and none is lost on it. The plane is an int8 plane otherwise: a row is about
// scale * code, and its residual is what that leaves (kernels/int8_bound.hpp).
//
// The scale is that of least squares for the codes: scale * code is the projection of the row on
// its codes but for roundings. So it is no longer than the row, as the proof of first_pass_slack()
// wants, and what it leaves is not either. Nor is the scale small: a code has its element's sign
// and is at least 1 and at most 15, so the scale is at least |row| / (225 dim).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/head_rows.hpp"
#include "kernels/int8_bound.hpp"

namespace hyrecall {

inline constexpr int kNibbleMost = 15;
// Half a step, in standard deviations of the elements: what 16 even steps leave of a normal
// distribution is least there.
inline constexpr double kNibbleHalfStep = 0.1675;

constexpr std::uint8_t nibble_of(int code) {
  return static_cast<std::uint8_t>((code + kNibbleMost) / 2);
}
constexpr int code_of_nibble(std::uint8_t nibble) {
  return 2 * nibble - kNibbleMost;
}

// Writes dim codes of a head and returns their scale and residual. norm is row_norm's of the
// vector, 0 = missing. The codes are chosen by the half step of a normal distribution, and the
// scale is that of least squares: to choose again by it gains nothing (.1051 of a row instead of
// .1056).
//
// The residual as residual_up() says; multiplied by the inverse norm instead of divided by the
// norm, a unit value has one rounding more, for which its slack has room.
inline Int8Row quantize_nibbles(cpu::HeadKernels const& kernels, std::size_t dim, float const* head,
                                double norm, std::int8_t* codes) {
  double const square = norm == 0.0 ? 0.0 : kernels.squares(head, dim);
  if (!(square > 0.0)) {
    for (std::size_t i = 0; i < dim; ++i) codes[i] = 1;
    return {0.0f, 0.0f};
  }
  double const half = kNibbleHalfStep * std::sqrt(square / static_cast<double>(dim));
  cpu::NibbleSums const sums = kernels.nibbles(head, dim, static_cast<float>(0.5 / half), codes);
  auto const scale = static_cast<float>(sums.along / static_cast<double>(sums.length) / norm);
  return {scale, residual_up(kernels.left(head, dim, 1.0 / norm, scale, codes), dim)};
}

}  // namespace hyrecall
