// The plane of the first pass: a cheap copy of the unit vectors that a first pass reads to choose
// candidates, and a proven bound on how far its scores lie from the canonical ones.
//
// Words. x is a row as stored (widened to float32, which is exact), q a query; |x| and |q| are 0
// (missing) or in [2^-60, 2^60]. u = x/|x| and v = q/|q| are the unit vectors of real arithmetic,
// c = <u, v> their cosine, s the canonical score (core/formulas.hpp), u^ and v^ what the plane
// holds, a the first pass's score. m = ceil(dim / 32); e = 2^-24 and e' = 2^-53 are half an ulp of
// 1 in float32 and float64.
//
//   plane               row                          query
//   int8                scale * code of u            scale * code of v
//   bfloat16            x as stored, and float32     v rounded to the type
//                       of 1/|x|: u^ = u
//
// The bound. |<u, v> - <u^, v^>| <= |<u - u^, v^>| + |<u, v - v^>| <= r (1 + t) + t by
// Cauchy-Schwarz with |u| = 1 and |v^| <= 1 + t, where r >= |u - u^| and t >= |v - v^| are the
// residuals. So |s - a| <= r (1 + t) + t + canonical_slack + first_pass_slack: the first bounds |s
// - c|, the second |a - <u^, v^>|. Their proofs stand where they are computed.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"

namespace hyrecall {

enum class FirstPassPlane : std::uint8_t { kInt8, kBFloat16 };

// Up to here the proofs hold: an int8 dot, at most dim * 127^2, fits 31 bits; the other plane's
// slack stays below 1.
HYRECALL_HD constexpr std::size_t max_first_pass_dim(FirstPassPlane plane) {
  return plane == FirstPassPlane::kInt8 ? 133144 : std::size_t{1} << 20;
}

// ---- one element: what a thread of a warp does

// norm is row_norm's, not 0.
HYRECALL_HD inline double unit_value(float x, double norm) {
  return static_cast<double>(x) / norm;
}

// max_unit = max |u_i| >= 1 / sqrt(dim), so the scale is a normal number.
HYRECALL_HD inline float int8_scale(double max_unit) {
  return static_cast<float>(max_unit / 127.0);
}

// Nearest, halves away from 0; |unit - scale * code| <= |unit| but for a rounding.
HYRECALL_HD inline std::int8_t int8_code(double unit, float scale) {
  if (scale == 0.0f) return 0;
  double const steps = unit / static_cast<double>(scale);
  double const away = steps + (steps < 0.0 ? -0.5 : 0.5);
  double const within = away > 127.0 ? 127.0 : away < -127.0 ? -127.0 : away;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(within));  // a cast cuts towards 0
}

// What the plane leaves of an element. Lane i mod 32 adds the squares in rising order, then
// fold_lanes: a warp gets the host's bits.
HYRECALL_HD inline double left_over(double unit, double plane_value) {
  return unit - plane_value;
}
HYRECALL_HD inline double int8_value(std::int8_t code, float scale) {
  return static_cast<double>(scale) * code;  // 24 + 7 bits: exact
}

// A float32 >= |u - u^| from the sum of squares of left_over(). In units of e' and to first order,
// with w the computed unit values:
//   norm     m additions, 5 folds, a square root: (m + 5)/2 + 1    (squares of float32 are exact)
//   w_i      one division: |w_i - u_i| <= ((m + 5)/2 + 2) |u_i|, so |w - u| <= (m + 9)/2
//   squares  one subtraction (twice, squared), one product, m additions, 5 folds: m + 8 relative
//   root     half of that and one: (m + 10)/2 relative
// Hence |u - u^| <= |w - u^| + |u - w| <= root (1 + (m + 10)/2 e') + (m + 9)/2 e'. Twice m + 16
// covers these, the higher orders and the roundings below. Nothing here is near underflow: |w_i| is
// 0 or >= 2^-209.
HYRECALL_HD inline float residual_up(double sum_of_squares, std::size_t dim) {
  double const slack = static_cast<double>(dim / kLanes + 1 + 16) * 0x1p-52;
  double const root = sqrt(sum_of_squares);
  return float_up(root + (root * slack + slack));
}

// ---- one row, on the host

struct Int8Row {
  float scale;     // 0 of a missing row
  float residual;  // >= |u - u^|; 0 of a missing row
};

// Writes dim codes. element(i) is a float; norm is row_norm's, 0 = missing. Queries as well. Loops
// of a kind, in blocks of kLanes, so that compilers take several elements at once.
template <typename Element>
Int8Row quantize_row(std::size_t dim, Element&& element, double norm, std::int8_t* codes) {
  std::int32_t greatest = 0;  // of magnitudes: as patterns they are in the same order
  for (std::size_t i = 0; norm != 0.0 && i < dim; ++i) {
    float const x = element(i);
    auto const magnitude = std::bit_cast<std::int32_t>(x) & 0x7fffffff;
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  if (greatest == 0) {
    for (std::size_t i = 0; i < dim; ++i) codes[i] = 0;
    return {0.0f, 0.0f};
  }
  // Division rounds in order, so the greatest unit value is that of the greatest element.
  float const most = std::bit_cast<float>(greatest);
  float const scale = int8_scale(unit_value(most, norm));
  double lanes[kLanes] = {};
  for (std::size_t first = 0; first < dim; first += kLanes) {
    std::size_t const n = dim - first < kLanes ? dim - first : kLanes;
    double units[kLanes] = {};
    std::int32_t whole[kLanes];
    for (std::size_t lane = 0; lane < n; ++lane)
      units[lane] = unit_value(element(first + lane), norm);
    for (std::size_t lane = 0; lane < kLanes; ++lane) whole[lane] = int8_code(units[lane], scale);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      double const left =
          left_over(units[lane], int8_value(static_cast<std::int8_t>(whole[lane]), scale));
      lanes[lane] = lanes[lane] + left * left;
    }
    for (std::size_t lane = 0; lane < n; ++lane)
      codes[first + lane] = static_cast<std::int8_t>(whole[lane]);
  }
  return {scale, residual_up(fold_lanes(lanes), dim)};
}

// Writes the dim 16-bit patterns of a unit query in a bfloat16 plane and returns its residual;
// zeros and 0 of a missing query.
template <typename Element>
float round_query(std::size_t dim, Element&& element, double norm, std::uint16_t* out) {
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < dim; ++i) {
    double const unit = norm == 0.0 ? 0.0 : unit_value(element(i), norm);
    out[i] = bfloat16_bits(unit);
    double const left = left_over(unit, bfloat16_value(out[i]));
    lanes[i % kLanes] = lanes[i % kLanes] + left * left;
  }
  return norm == 0.0 ? 0.0f : residual_up(fold_lanes(lanes), dim);
}

// ---- scores of the first pass and their bound

HYRECALL_HD inline float first_pass_score(std::int32_t dot, float row_scale, float query_scale) {
  return static_cast<float>(dot) * row_scale * query_scale;
}
HYRECALL_HD inline float first_pass_score(float dot, float row_inverse) {
  return dot * row_inverse;
}

// |s - c| <= canonical_slack(dim).
//   1. A product x_i q_i passes at most m fma of its lane and 5 folds. Each fma rounds to r (1 + d)
//      + h, |d| <= e, |h| <= 2^-150 (h only where r is subnormal); each fold to r (1 + d), since a
//      subnormal sum is exact; the padding, fma(0, 0, r) = r, changes nothing. Hence
//        |dot - <x, q>| <= ((1 + e)^(m+5) - 1) sum |x_i q_i| + dim 2^-150 (1 + e)^(m+5),
//      and sum |x_i q_i| <= |x| |q| <= 2^120: no partial sum overflows.
//   2. Each inverse norm is 1/|x| (1 + d)(1 + d'), |d| <= e, |d'| <= ((m + 5)/2 + 3) e'; it lies in
//      [2^-60, 2^60] but for roundings, so it is normal.
//   3. Each of the two products rounds to r (1 + d) + h. The first is about |q| c, the second c:
//      neither overflows, and together their h add at most 2^-150 (2^60 + 1) < 2^-89.
//   4. So before the clamp s is <u, v> with every product multiplied by at most m + 5 + 2 + 2
//      factors 1 + d, the d' and the h of 3, for which one more factor is enough (they are below
//      2^-36), plus the h of 1 over |x| |q| >= 2^-120. With g = (m + 10) e,
//      (1 + e)^(m+10) <= 1/(1 - g):
//        |s - c| <= g/(1 - g) + dim 2^-30/(1 - g).
//   5. c lies in [-1, 1]: the clamp brings s nearer; -0 is 0.
HYRECALL_HD inline float canonical_slack(std::size_t dim) {
  double const g = static_cast<double>((dim + kLanes - 1) / kLanes + 10) * 0x1p-24;
  return float_up((g + static_cast<double>(dim) * 0x1p-30) / (1.0 - g));
}

// |a - <u^, v^>| <= first_pass_slack(plane, dim).
//   int8: the dot is exact in 32 bits. Its conversion (inexact beyond 2^24, so from dim 1,041 on)
//   and two products, in any order, round to <u^, v^> (1 + d)^3; none is subnormal, since a scale
//   is >= 2^-16. A code leaves no more than the element, so |u^| <= 2 and |<u^, v^>| <= 4 but for
//   roundings: 4 * 3 e, and one e for the higher orders.
//   bfloat16: ASSUMED of a dot with exact products and float32 accumulation, in any
//   order, on tensor cores too: |dot - <x, v^>| <= dim 2^-22 |x| |v^|. (Twice what dim truncations
//   to 24 bits cost; the vendor states no bound. tests/kernels/test_first_pass_bound.py holds a
//   device to half of it.) 1/|x| and the product round to (1 + d)^2, and |v^| <= 1 + 2^-7: dim
//   2^-22 (1 + 2^-6) + 3 e. Subnormal bfloat16 and float32 may be flushed: that costs dim 2^-64,
//   which the 2^-6 covers.
HYRECALL_HD inline float first_pass_slack(FirstPassPlane plane, std::size_t dim) {
  if (plane == FirstPassPlane::kInt8) return 13 * 0x1p-24f;
  return float_up(static_cast<double>(dim) * 0x1p-22 * (1.0 + 0x1p-6) + 3 * 0x1p-24);
}

// |<u, v> - <u^, v^>| <= row_error(r, t). In a bfloat16 plane r = 0.
HYRECALL_HD inline float row_error(float row_residual, float query_residual) {
  double const r = row_residual;
  double const t = query_residual;
  return float_up((r * (1.0 + t) + t) * (1.0 + 0x1p-50));
}

// |s - a| <= first_pass_error(...): the whole bound, both ways.
HYRECALL_HD inline float first_pass_error(FirstPassPlane plane, std::size_t dim, float row_residual,
                                          float query_residual) {
  double const slack = static_cast<double>(canonical_slack(dim)) + first_pass_slack(plane, dim);
  return float_up((row_error(row_residual, query_residual) + slack) * (1.0 + 0x1p-50));
}

// What a first pass needs to know of a query: upper_score(a, r, bound) >= s.
struct QueryBound {
  float per_residual;  // >= 1 + t
  float constant;      // >= t + canonical_slack + first_pass_slack + 2^-22
};

HYRECALL_HD inline QueryBound query_bound(FirstPassPlane plane, std::size_t dim,
                                          float query_residual) {
  double const t = query_residual;
  double const slack = static_cast<double>(canonical_slack(dim)) + first_pass_slack(plane, dim);
  return {float_up(1.0 + t), float_up(t + slack + 0x1p-22)};
}

// One fma a score. 2^-22 in the constant pays for the rounding of the fma and of the sum: where
// their values lie in (-4, 4) each is at most 2^-23; from 4 on they do not fall below 4 > s; and
// they are not <= -4, since s >= -1 and the constant < 3.
HYRECALL_HD inline float reach(float score, float row_residual, float per_residual) {
  return fmaf(row_residual, per_residual, score);
}
HYRECALL_HD inline float upper_score(float score, float row_residual, QueryBound bound) {
  return reach(score, row_residual, bound.per_residual) + bound.constant;
}

// The other way: s >= lower_score(a, r, bound's factor) - constant. The fma rounds by at most 2^-23
// where its value lies in (-4, 4), and below that s >= -1 is more than it says. So candidates that
// are kept by this number need no greatest residual to give a threshold.
HYRECALL_HD inline float lower_score(float score, float row_residual, float per_residual) {
  return fmaf(-row_residual, per_residual, score);
}
// reach() from lower_score(), or more. 2^-21 pays for three roundings: of the lower score (at most
// 2^-22, as it is above -8), of the fma and of this sum (2^-23 each, as for reach()).
HYRECALL_HD inline float reach_of_lower(float lower, float row_residual, float per_residual) {
  return fmaf(2.0f * row_residual, per_residual, lower) + 0x1p-21f;
}

// Where rows that passed by two bounds wait together: a reach of one bound as one of the other. By
// upper_score() s <= reach + constant in real numbers with 2^-23 to spare, which no sum in float32
// takes here; the sum in float64 errs by 2^-52 at most. So a row with s >= threshold has
// moved_reach(...) >= cut_for(threshold, the other bound).
HYRECALL_HD inline double reach_move(QueryBound from, QueryBound to) {
  return static_cast<double>(from.constant) - static_cast<double>(to.constant);
}
HYRECALL_HD inline float moved_reach(float reach, double move) {
  return float_up(static_cast<double>(reach) + move);
}

// Moves the constant out of the loop: a row with s >= threshold has reach(...) >= cut_for(...).
HYRECALL_HD inline float cut_for(float threshold, QueryBound bound) {
  return float_down(static_cast<double>(threshold) - static_cast<double>(bound.constant));
}

}  // namespace hyrecall
