// The head of a vector: its coordinates along a few directions, and the length of the rest. A plane
// of heads is smaller than the int8 plane of whole vectors, and bounds the canonical score from
// above: rows that it turns down need not be read there.
//
// Words as in kernels/int8_bound.hpp: u and v are the unit vectors of a row and a query, e = 2^-24.
// D is the matrix of directions as stored: dim x m numbers of float32, each column one direction.
// They are about orthonormal; d >= |D'D - 1| says how nearly, in the spectral norm. A proof that
// took them for orthonormal would be wrong by the roundings of D.
//
// The bound in real arithmetic. Let a = D'u and b = D'v, u' = u - D a and v' = v - D b. Then
//   <u, v> = <u, D b> + <u, v'> = <a, b> + <D a, v'> + <u', v'>,
// and D'v' = b - D'D b, so <D a, v'> = <a, (1 - D'D) b> <= d |a| |b|, with |a|, |b| <= sqrt(1 + d).
// Of the rest only its length is known: |u'|^2 = 1 - 2 |a|^2 + a'D'D a <= 1 - (1 - d) |a|^2. So
//   <u, v> <= <a, b> + |u'| |v'| + d (1 + d).
//
// The head as computed. h holds the dots of the stored row with the directions, divided by the
// row's norm: |h - a| <= p (row_projection). A query's are canonical dots: p' (projection). p is at
// least p', so it holds for rows of canonical dots too (heads of 8 bits, and older indexes). The
// rest r >= |u'| follows from |h| by the formula above. The head is w = (h, r/2, r/2, r/2, r/2):
// four equal elements, so that none is much larger than the others, and one scale of 8 bits serves
// them all. With g and s of the query,
//   <w_u, w_v> = <h, g> + r s,   <a, b> <= <h, g> + p sqrt(1 + d) + (sqrt(1 + d) + p) p'.
// So <u, v> <= <w_u, w_v> + slack with slack = (d + p + p')(1 + 2^-8), where d, p and p' are at
// most 2^-10. And |w|^2 = |h|^2 + r^2 <= 1 + d |h|^2 + 2 p |h| but for roundings, so
// |w| <= 1 + excess with excess = d + 2 p + 2^-21, of a query too.
//
// The head as a row of an int8 plane. w^ is what the codes hold, q >= |w_u - w_u^| the residual of
// the row, t >= |w_v - w_v^| that of the query. Then
//   <w_u, w_v> <= <w_u^, w_v^> + q |w_v^| + |w_u| t <= ... + q (1 + excess + t) + (1 + excess) t,
// the form of reach() and cut_for(), so the kernels of the int8 plane read heads as they are. The
// slack of the first pass stands: |w^| <= 2 (1 + excess) costs less than its spare e. The codes of
// a row may as well have 4 bits (kernels/nibble_code.hpp): the proof asks for no more of them than
// a residual, and that |w^| is not larger.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "kernels/head_rows.hpp"
#include "kernels/int8_bound.hpp"

namespace hyrecall {

inline constexpr std::size_t kRestElements = 4;  // elements of a head that hold the rest
inline constexpr double kGreatestDeviation = 0x1p-10;

constexpr std::size_t head_dim(std::size_t n_directions) {
  return n_directions + kRestElements;
}

// What the directions of a column cost a bound.
struct HeadBound {
  double deviation = 0.0;       // d
  double projection = 0.0;      // p'
  double row_projection = 0.0;  // p
  double slack() const { return (deviation + projection + row_projection) * (1.0 + 0x1p-8); }
  double excess() const { return deviation + 2.0 * row_projection + 0x1p-21; }
};

// An upper bound of |D'D - 1| by the Frobenius norm, in float64. A dot of two directions errs by at
// most (dim + 1) 2^-53 |D_i| |D_j|, the norm over all m^2 of them by m (dim + 2) 2^-53 (1 + d),
// with its own sums and root by less than as much again.
template <typename Dot>
double head_deviation(std::size_t dim, std::size_t n_directions, Dot&& dot) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n_directions; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double const off = dot(i, j) - (i == j ? 1.0 : 0.0);
      sum += (i == j ? 1.0 : 2.0) * off * off;
    }
  }
  double const roundings = static_cast<double>(n_directions) * static_cast<double>(dim + 2);
  return std::sqrt(sum) * (1.0 + 0x1p-40) + roundings * 0x1p-51;
}

// |h - a| for m directions of dim elements, where a product x_i D_ij passes at most n roundings to
// the dot of its row: that errs by at most n e / (1 - n e) |D_j| |x| + dim 2^-149. Over the
// directions that is sqrt(m (1 + d)) times the first, and after the division by |x| >= 2^-60 the
// second is nothing beside 2^-40, which pays for it and for roundings of float64.
inline double head_error(std::size_t n_roundings, std::size_t n_directions, double deviation) {
  double const share = static_cast<double>(n_roundings) * 0x1p-24;
  double const norm = std::sqrt(static_cast<double>(n_directions) * (1.0 + deviation));
  return norm * share / (1.0 - share) * (1.0 + 0x1p-40) + 0x1p-40;
}

// p': canonical dots, by 1. of canonical_slack(), and a norm in float64.
inline double head_projection(std::size_t dim, std::size_t n_directions, double deviation) {
  return head_error((dim + kLanes - 1) / kLanes + 5, n_directions, deviation);
}

// p: the dots of head_rows.hpp. A product passes at most a rounding for each element of its
// piece, and one for each piece. Then comes the inverse norm in float32: its rounding, its own
// error (below e), and that of the product, of a number that may be subnormal where 2^-40 pays for
// it. From 4,001 elements on canonical dots may err more.
inline double head_row_projection(std::size_t dim, std::size_t n_directions, double deviation) {
  std::size_t const piece = cpu::head_piece(dim);
  std::size_t const n_roundings = piece + (dim + piece - 1) / piece + 3;
  return std::max(head_error(n_roundings, n_directions, deviation),
                  head_projection(dim, n_directions, deviation));
}

// None: the directions are too far from orthonormal for a bound (or not numbers).
inline std::optional<HeadBound> head_bound(std::size_t dim, std::size_t n_directions,
                                           double deviation) {
  if (!(deviation <= kGreatestDeviation)) return std::nullopt;
  HeadBound const bound{deviation, head_projection(dim, n_directions, deviation),
                        head_row_projection(dim, n_directions, deviation)};
  if (!(bound.row_projection <= kGreatestDeviation)) return std::nullopt;
  return bound;
}

// r >= |u'| from |h|. 2^-48 pays for the roundings below, the last factor for the root's.
inline double head_rest(double length, double deviation, double projection) {
  double const least = std::max(0.0, length * (1.0 - 0x1p-40) - projection);
  double const square = 1.0 - (1.0 - deviation) * (least * least) + 0x1p-48;
  return std::sqrt(std::max(square, 0x1p-48)) * (1.0 + 0x1p-50);
}

// An element of the rest, in the units of a vector of this norm.
inline float rest_element(double rest, double norm) {
  return float_up(rest / 2.0 * norm * (1.0 + 0x1p-50));
}

// Completes a head whose first elements are the canonical dots of the vector with the directions:
// writes the elements of the rest, in the units of the stored vector. norm is row_norm's, not 0.
inline void fill_rest(std::size_t n_directions, double norm, HeadBound const& bound, float* head) {
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < n_directions; ++i)
    lanes[i % kLanes] += static_cast<double>(head[i]) * head[i];
  double const length = std::sqrt(fold_lanes(lanes)) / norm;
  float const part = rest_element(head_rest(length, bound.deviation, bound.projection), norm);
  for (std::size_t i = 0; i < kRestElements; ++i) head[n_directions + i] = part;
}

// As query_bound(), of a query's head.
inline QueryBound head_query_bound(std::size_t dim, float query_residual, HeadBound const& bound) {
  double const t = query_residual;
  double const scan =
      static_cast<double>(canonical_slack(dim)) + first_pass_slack(FirstPassPlane::kInt8, dim);
  double const whole = t * (1.0 + bound.excess()) + bound.slack() + scan + 0x1p-22;
  return {float_up(1.0 + bound.excess() + t), float_up(whole * (1.0 + 0x1p-50))};
}

}  // namespace hyrecall
