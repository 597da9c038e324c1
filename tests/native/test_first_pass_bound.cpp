// The plane of the first pass against real arithmetic: its residuals cover what it leaves out, and
// no canonical score escapes the bound. Each part of the bound is also broken on purpose.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"
#include "kernels/cpu/dot.hpp"
#include "kernels/int8_bound.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using Vector = std::vector<float>;
constexpr std::size_t kDims[] = {1, 2, 3, 31, 32, 33, 64, 100, 384, 768, 1041, 2048};

double norm_of(Vector const& x) {
  return row_norm(x.size(), [&](std::size_t i) { return static_cast<double>(x[i]); });
}

// The parts that a planted bug replaces.
struct Parts {
  float (*scale)(std::vector<double> const& unit);
  float (*residual)(double sum_of_squares, std::size_t dim);
  float (*row_error)(float row_residual, float query_residual);
};

float scale_of_max(std::vector<double> const& unit) {
  double max = 0.0;
  for (double u : unit) max = std::max(max, std::abs(u));
  return int8_scale(max);
}
constexpr Parts kRight{scale_of_max, residual_up, row_error};

// A vector in a plane: row or query.
struct Planed {
  std::vector<std::int8_t> codes;     // int8
  std::vector<std::uint16_t> halves;  // else
  float scale = 0.0f;
  float residual = 0.0f;
};

// As a warp does it: every lane its own elements, then the fold.
Planed quantize_by_lanes(Vector const& x, Parts const& parts) {
  std::vector<double> unit;
  double const norm = norm_of(x);
  for (float value : x) unit.push_back(unit_value(value, norm));
  Planed out;
  out.scale = parts.scale(unit);
  out.codes.resize(x.size());
  double lanes[kLanes] = {};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = lane; i < x.size(); i += kLanes) {
      out.codes[i] = int8_code(unit[i], out.scale);
      double const left = left_over(unit[i], int8_value(out.codes[i], out.scale));
      lanes[lane] += left * left;
    }
  }
  out.residual = parts.residual(fold_lanes(lanes), x.size());
  return out;
}

Planed rounded(Vector const& x) {
  Planed out;
  out.halves.resize(x.size());
  out.residual =
      round_query(x.size(), [&](std::size_t i) { return x[i]; }, norm_of(x), out.halves.data());
  return out;
}

// ---- rows

TEST(first_pass_plane_quantizes_cases_made_by_hand) {
  Vector const x{3, 2, 1, -1, 1};  // norm 4: units 0.75, 0.5, 0.25, ... are exact
  std::int8_t codes[5];
  Int8Row const row = quantize_row(5, [&](std::size_t i) { return x[i]; }, norm_of(x), codes);
  CHECK_EQ(row.scale, static_cast<float>(0.75 / 127.0));
  int const expected[] = {127, 85, 42, -42, 42};  // 84.67, 42.33
  for (int i = 0; i < 5; ++i) CHECK_EQ(static_cast<int>(codes[i]), expected[i]);
  // One third of a step left over, four times: 2 / 3 * 0.75 / 127.
  CHECK(std::abs(row.residual - 2.0 / 3 * 0.75 / 127) < 1e-7);

  Vector one_hot(100, 0.0f);
  one_hot[37] = -0x1p-59f;
  std::vector<std::int8_t> wide(100, 9);
  Int8Row const sharp =
      quantize_row(100, [&](std::size_t i) { return one_hot[i]; }, norm_of(one_hot), wide.data());
  for (std::size_t i = 0; i < 100; ++i) CHECK_EQ(static_cast<int>(wide[i]), i == 37 ? -127 : 0);
  CHECK(sharp.residual > 0.0f && sharp.residual < 1e-7f);

  std::fill(wide.begin(), wide.end(), std::int8_t{9});
  Int8Row const missing = quantize_row(100, [](std::size_t) { return 0.0f; }, 0.0, wide.data());
  CHECK(missing.scale == 0.0f && missing.residual == 0.0f);
  for (std::int8_t code : wide) CHECK_EQ(static_cast<int>(code), 0);
  std::uint16_t half = 9;
  CHECK_EQ(round_query(1, [](std::size_t) { return 0.0f; }, 0.0, &half), 0.0f);
  CHECK_EQ(half, 0);
}

// Integers whose squares add up to a power of 4: the unit vector is exact in float64, every left-
// over is a multiple of 2^-40, and the comparison of squares needs no rounding.
std::vector<Vector> exact_vectors() {
  std::vector<Vector> all{{3, 2, 1, 1, 1}, {1, 3, -2, 1, 1}, {7, 3, 2, 1, 1}, {6, 5, 1, 1, 1}};
  Rng rng(2);
  while (all.size() < 40) {
    Vector x;
    int rest = 256;
    while (rest > 0) {
      int const step = 1 + rng.below(std::min(12, static_cast<int>(std::sqrt(rest))));
      x.push_back(static_cast<float>(step));
      rest -= step * step;
    }
    all.push_back(x);
  }
  return all;
}

void check_residuals_exactly(Parts const& parts) {
  for (Vector const& x : exact_vectors()) {
    Planed const plane = quantize_by_lanes(x, parts);
    double const norm = norm_of(x);
    CHECK_EQ(norm, std::round(norm));
    __extension__ typedef __int128 Wide;
    Wide squares = 0;  // in units of 2^-80
    for (std::size_t i = 0; i < x.size(); ++i) {
      double const left = std::ldexp(x[i] / norm - int8_value(plane.codes[i], plane.scale), 40);
      CHECK_EQ(left, std::round(left));
      squares += static_cast<Wide>(left) * static_cast<Wide>(left);
    }
    double const residual = std::ldexp(plane.residual, 40);
    CHECK_EQ(residual, std::round(residual));
    CHECK(static_cast<Wide>(residual) * static_cast<Wide>(residual) >= squares);
  }
}

TEST(first_pass_plane_residuals_are_not_below_exact_ones) {
  check_residuals_exactly(kRight);
}

// |u - u^| in long double, whose 64 bits leave room for its own roundings.
void check_residual(Vector const& x, Planed const& in, FirstPassPlane plane, Parts const& parts) {
  long double norm = 0;
  for (float value : x) norm += static_cast<long double>(value) * value;
  norm = std::sqrt(norm);
  long double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    long double const held = plane == FirstPassPlane::kInt8
                                 ? static_cast<long double>(int8_value(in.codes[i], in.scale))
                                 : bfloat16_value(in.halves[i]);
    squares += (x[i] / norm - held) * (x[i] / norm - held);
  }
  CHECK(in.residual >= std::sqrt(squares));
  CHECK(in.residual <= std::sqrt(squares) * 1.000001L + 1e-12L || parts.residual != residual_up);
}

// ---- pairs

enum class Shape { kGaussian, kOutliers, kOneHot, kEqual, kNear, kFew };
constexpr Shape kShapes[] = {Shape::kGaussian, Shape::kOutliers, Shape::kOneHot,
                             Shape::kEqual,    Shape::kNear,     Shape::kFew};

float near_gaussian(Rng& rng) {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += rng.unit();
  return static_cast<float>(sum);
}

Vector vector_of(Shape shape, std::size_t dim, Vector const& near, Rng& rng) {
  Vector x(dim, 0.0f);
  for (float& value : x) {
    if (shape == Shape::kEqual) {
      value = rng.below(2) == 0 ? 1.0f : -1.0f;
    } else if (shape != Shape::kOneHot && (shape != Shape::kFew || rng.below(8) == 0)) {
      value = near_gaussian(rng);
    }
  }
  if (shape == Shape::kOutliers) {
    for (std::size_t i = 0; i < dim; i += 97) x[i] *= 1000.0f;
  }
  for (std::size_t i = 0; shape == Shape::kNear && i < dim; ++i) {
    x[i] = near[i] * (1.0f + 1e-4f * x[i]);
  }
  if (norm_of(x) == 0.0) x[rng.below(dim)] = 1.0f;
  return x;
}

// Length 1 or a little more, times the factor; then as the type stores it.
Vector stored(Vector x, FirstPassPlane type, double factor) {
  double const scale = 1.0625 * factor / norm_of(x);
  for (float& value : x) {
    value = static_cast<float>(value * scale);
    if (type == FirstPassPlane::kBFloat16) value = bfloat16_value(bfloat16_bits(value));
  }
  return x;
}

float canonical_score(Vector const& row, Vector const& query) {
  Vector padded(query);
  padded.resize((query.size() + kLanes - 1) / kLanes * kLanes, 0.0f);
  float dot = 0.0f;
  cpu::scalar_dot_kernels().float32(padded.data(), row.data(), 1, row.size(), &dot);
  return cosine(dot, inverse_norm(norm_of(row)), inverse_norm(norm_of(query)));
}

long double true_dot(Vector const& a, Vector const& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
  return sum;
}

float int8_score_of(Planed const& row, Planed const& query) {
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < row.codes.size(); ++i) dot += row.codes[i] * query.codes[i];
  return first_pass_score(dot, row.scale, query.scale);
}

// Every sum cut to 24 bits, as coarse as a unit with float32 accumulators may be.
float cut_score_of(Vector const& row, Planed const& query) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < row.size(); ++i) {
    double const exact = sum + static_cast<double>(row[i]) * bfloat16_value(query.halves[i]);
    sum = exact < 0.0 ? -float_down(-exact) : float_down(exact);
  }
  return first_pass_score(sum, inverse_norm(norm_of(row)));
}

void check_pair(FirstPassPlane plane, Vector const& row, Vector const& query, Parts const& parts) {
  std::size_t const dim = row.size();
  bool const is_int8 = plane == FirstPassPlane::kInt8;
  Planed const r = is_int8 ? quantize_by_lanes(row, parts) : Planed{};
  Planed const q = is_int8 ? quantize_by_lanes(query, parts) : rounded(query);
  if (is_int8) check_residual(row, r, plane, parts);
  check_residual(query, q, plane, parts);
  float const s = canonical_score(row, query);
  float const a = is_int8 ? int8_score_of(r, q) : cut_score_of(row, q);
  long double const c =
      true_dot(row, query) / std::sqrt(true_dot(row, row)) / std::sqrt(true_dot(query, query));
  CHECK(std::abs(s - c) <= canonical_slack(dim));
  CHECK(std::abs(a - c) <= parts.row_error(r.residual, q.residual) + first_pass_slack(plane, dim));
  CHECK(std::abs(static_cast<double>(s) - a) <=
        first_pass_error(plane, dim, r.residual, q.residual));
  QueryBound const bound = query_bound(plane, dim, q.residual);
  CHECK(upper_score(a, r.residual, bound) >= s);
  CHECK(reach(a, r.residual, bound.per_residual) >= cut_for(s, bound));
  float const lower = lower_score(a, r.residual, bound.per_residual);
  CHECK(static_cast<double>(s) >= static_cast<double>(lower) - bound.constant);
  CHECK(reach_of_lower(lower, r.residual, bound.per_residual) >= cut_for(s, bound));
  CHECK(reach_of_lower(lower, r.residual, bound.per_residual) <=
        reach(a, r.residual, bound.per_residual) + 2e-6f);
  CHECK(upper_score(a, r.residual, bound) <=
        a + first_pass_error(plane, dim, r.residual, q.residual) + 2e-6);
}

TEST(first_pass_bound_holds_for_every_shape_dim_and_norm) {
  Rng rng(3);
  for (std::size_t dim : kDims) {
    for (Shape const query_shape : kShapes) {
      for (Shape const row_shape : kShapes) {
        Vector const base = vector_of(Shape::kGaussian, dim, {}, rng);
        Vector const query = vector_of(query_shape, dim, base, rng);
        Vector const row = vector_of(row_shape, dim, query, rng);
        double const factor = std::ldexp(1.0, 59 * (static_cast<int>(rng.below(3u)) - 1));
        double const other = std::ldexp(1.0, 59 * (static_cast<int>(rng.below(3u)) - 1));
        Vector const wide_query = stored(query, FirstPassPlane::kInt8, other);
        check_pair(FirstPassPlane::kInt8, stored(row, FirstPassPlane::kInt8, factor), wide_query,
                   kRight);
        check_pair(FirstPassPlane::kInt8, stored(row, FirstPassPlane::kBFloat16, factor),
                   wide_query, kRight);
        check_pair(FirstPassPlane::kBFloat16, stored(row, FirstPassPlane::kBFloat16, factor),
                   wide_query, kRight);
      }
    }
  }
}

TEST(first_pass_bound_holds_at_the_greatest_int8_dim) {
  Rng rng(6);
  std::size_t const dim = max_first_pass_dim(FirstPassPlane::kInt8);
  Vector const x = vector_of(Shape::kEqual, dim, {}, rng);  // every code 127: the dot is greatest
  check_pair(FirstPassPlane::kInt8, x, x, kRight);
  check_pair(FirstPassPlane::kInt8, vector_of(Shape::kGaussian, dim, {}, rng), x, kRight);
}

TEST(first_pass_plane_without_a_threshold_cuts_nothing) {
  float const least = -std::numeric_limits<float>::infinity();
  CHECK_EQ(cut_for(least, query_bound(FirstPassPlane::kInt8, 8, 0.1f)), least);
}

TEST(first_pass_plane_lanes_give_the_bits_of_the_row) {
  Rng rng(4);
  for (std::size_t dim : kDims) {
    for (Shape const shape : {Shape::kGaussian, Shape::kOutliers, Shape::kOneHot, Shape::kEqual}) {
      Vector const x = vector_of(shape, dim, {}, rng);
      Planed const lanes = quantize_by_lanes(x, kRight);
      std::vector<std::int8_t> codes(dim);
      Int8Row const row =
          quantize_row(dim, [&](std::size_t i) { return x[i]; }, norm_of(x), codes.data());
      CHECK(codes == lanes.codes);
      CHECK_EQ(row.scale, lanes.scale);
      CHECK_EQ(row.residual, lanes.residual);
    }
  }
}

void check_usefulness(Parts const& parts) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    Planed const row = quantize_by_lanes(vector_of(Shape::kGaussian, 768, {}, rng), parts);
    Planed const query = quantize_by_lanes(vector_of(Shape::kGaussian, 768, {}, rng), parts);
    CHECK(first_pass_error(FirstPassPlane::kInt8, 768, row.residual, query.residual) < 0.02f);
  }
  CHECK(canonical_slack(768) < 3e-6f);
  CHECK(first_pass_slack(FirstPassPlane::kInt8, 768) < 1e-6f);
  CHECK(first_pass_slack(FirstPassPlane::kBFloat16, 768) < 2e-4f);
}

TEST(first_pass_bound_is_tight_enough_to_be_of_use) {
  check_usefulness(kRight);
}

// ---- planted bugs

template <typename Checker>
bool catches(Checker&& checker) {
  try {
    checker();
  } catch (Failure const&) {
    return true;
  }
  return false;
}

TEST(first_pass_plane_planted_rounding_of_a_residual_is_caught) {
  Parts down = kRight;
  down.residual = [](double sum, std::size_t) { return float_down(std::sqrt(sum)); };
  CHECK(catches([&] { check_residuals_exactly(down); }));
  Parts nearest = kRight;
  nearest.residual = [](double sum, std::size_t) { return static_cast<float>(std::sqrt(sum)); };
  CHECK(catches([&] { check_residuals_exactly(nearest); }));
}

// A row that the plane holds almost exactly, along what the query lost: 63 elements just below half
// a step.
TEST(first_pass_plane_planted_missing_query_term_is_caught) {
  Vector query(64, 0.49f / 127);
  query[0] = 1.0f;
  Vector row(64, 1.0f);
  row[0] = 0.0f;
  Parts forgets = kRight;
  forgets.row_error = [](float row_residual, float) { return row_residual; };
  check_pair(FirstPassPlane::kInt8, row, query, kRight);
  CHECK(catches([&] { check_pair(FirstPassPlane::kInt8, row, query, forgets); }));
  // And the other way round.
  forgets.row_error = [](float, float query_residual) { return query_residual; };
  CHECK(catches([&] { check_pair(FirstPassPlane::kInt8, query, row, forgets); }));
}

TEST(first_pass_plane_planted_scale_from_the_mean_is_caught) {
  Parts mean = kRight;
  mean.scale = [](std::vector<double> const& unit) {
    double sum = 0.0;
    for (double u : unit) sum += std::abs(u);
    return int8_scale(sum / static_cast<double>(unit.size()));
  };
  CHECK(catches([&] { check_usefulness(mean); }));
}

}  // namespace
}  // namespace hyrecall::testing
