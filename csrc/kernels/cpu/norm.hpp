// Inverse norms, by the canonical arithmetic.
#pragma once

#include <cmath>
#include <cstddef>

#include "core/formulas.hpp"

namespace hyrecall::cpu {

inline constexpr double kMinNorm =
    0x1p-60;  // outside, float32 products of a cosine could lose their meaning
inline constexpr double kMaxNorm = 0x1p60;

// Euclidean norm in float64: 32 lanes as the dot. Squares of float32 are exact in float64.
template <typename Widen>
double row_norm(std::size_t dim, Widen&& element) {
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < dim; ++i) {
    double const x = element(i);
    lanes[i % kLanes] = lanes[i % kLanes] + x * x;
  }
  return std::sqrt(fold_lanes(lanes));
}

// float32 of 1 / norm; 0 for a zero row, which counts as missing.
inline float inverse_norm(double norm) {
  return norm == 0.0 ? 0.0f : static_cast<float>(1.0 / norm);
}

}  // namespace hyrecall::cpu
