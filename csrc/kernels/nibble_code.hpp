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

#include "kernels/int8_bound.hpp"

namespace hyrecall {

inline constexpr int kNibbleMost = 15;
// Half a step, in standard deviations of the elements: what 16 even steps leave of a normal
// distribution is least there.
inline constexpr double kNibbleHalfStep = 0.1675;
inline constexpr int kNibbleRounds = 2;  // codes, then their scale: a third round gains nothing

constexpr std::uint8_t nibble_of(int code) {
  return static_cast<std::uint8_t>((code + kNibbleMost) / 2);
}
constexpr int code_of_nibble(std::uint8_t nibble) {
  return 2 * nibble - kNibbleMost;
}

// The magnitude of the code for an element of this magnitude, in steps. NaN, which only forged
// files hold, gets one too.
inline std::int32_t nibble_magnitude(float steps) {
  float const within = steps < 7.5f ? steps : 7.5f;
  return 2 * static_cast<std::int32_t>(within) + 1;
}

// Writes dim codes. element(i) is a float; norm is row_norm's, 0 = missing.
template <typename Element>
Int8Row quantize_nibbles(std::size_t dim, Element&& element, double norm, std::int8_t* codes) {
  double square = 0.0;
  for (std::size_t i = 0; norm != 0.0 && i < dim; ++i) {
    double const x = element(i);
    square += x * x;
  }
  if (!(square > 0.0)) {
    for (std::size_t i = 0; i < dim; ++i) codes[i] = 1;
    return {0.0f, 0.0f};
  }
  double half = kNibbleHalfStep * std::sqrt(square / static_cast<double>(dim));
  for (int round = 0; round < kNibbleRounds; ++round) {
    auto const per_step = static_cast<float>(0.5 / half);
    double along = 0.0;
    std::int64_t length = 0;
    for (std::size_t first = 0; first < dim; first += kLanes) {
      std::size_t const n = dim - first < kLanes ? dim - first : kLanes;
      float magnitudes[kLanes] = {};
      std::int32_t found[kLanes];
      float part = 0.0f;
      std::int32_t squares = 0;
      for (std::size_t lane = 0; lane < n; ++lane)
        magnitudes[lane] = std::fabs(element(first + lane));
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        found[lane] = nibble_magnitude(magnitudes[lane] * per_step);
      for (std::size_t lane = 0; lane < n; ++lane) {
        part += magnitudes[lane] * static_cast<float>(found[lane]);
        squares += found[lane] * found[lane];
        bool const is_negative = std::signbit(element(first + lane));
        codes[first + lane] = static_cast<std::int8_t>(is_negative ? -found[lane] : found[lane]);
      }
      along += part;
      length += squares;
    }
    half = along / static_cast<double>(length);
  }
  auto const scale = static_cast<float>(half / norm);
  double lanes[kLanes] = {};
  for (std::size_t first = 0; first < dim; first += kLanes) {
    std::size_t const n = dim - first < kLanes ? dim - first : kLanes;
    for (std::size_t lane = 0; lane < n; ++lane) {
      double const left = left_over(unit_value(element(first + lane), norm),
                                    int8_value(codes[first + lane], scale));
      lanes[lane] = lanes[lane] + left * left;
    }
  }
  return {scale, residual_up(fold_lanes(lanes), dim)};
}

}  // namespace hyrecall
