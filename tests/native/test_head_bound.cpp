// Heads of vectors against real arithmetic: no canonical score escapes their bound, its slack is at
// least twice what roundings take, and each part of the bound is also left out on purpose.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/formulas.hpp"
#include "kernels/cpu/dot.hpp"
#include "kernels/cpu/head_rows.hpp"
#include "kernels/head_bound.hpp"
#include "kernels/nibble_code.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using Vector = std::vector<float>;
using Wide = std::vector<long double>;

double norm_of(Vector const& x) {
  return row_norm(x.size(), [&](std::size_t i) { return static_cast<double>(x[i]); });
}

Wide gaussian(std::size_t n, Rng& rng) {
  Wide out(n, -6.0L);
  for (long double& value : out) {
    for (int i = 0; i < 12; ++i) value += rng.unit();
  }
  return out;
}

long double dot(Wide const& a, Wide const& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(Wide& to, long double factor, Wide const& other) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * other[i];
}

void scale(Wide& x, long double factor) {
  for (long double& value : x) value *= factor;
}

// Orthonormal to the others, in long double.
Wide next_direction(std::vector<Wide> const& others, std::size_t dim, Rng& rng) {
  Wide x = gaussian(dim, rng);
  for (int pass = 0; pass < 2; ++pass) {
    for (Wide const& one : others) add(x, -dot(x, one), one);
  }
  scale(x, 1.0L / std::sqrt(dot(x, x)));
  return x;
}

Vector stored(Wide const& x, double factor = 1.0) {
  Vector out;
  for (long double const value : x) out.push_back(static_cast<float>(value * factor));
  return out;
}

Wide wide(Vector const& x) {
  return {x.begin(), x.end()};
}

// Directions and the space around them.
struct Frame {
  std::vector<Wide> exact;   // orthonormal
  std::vector<Vector> held;  // as stored
  Wide outside;              // of length 1, orthogonal to all of them
  HeadBound bound;
};

// skew: the first two directions lean towards each other by so much.
Frame frame_of(std::size_t dim, std::size_t n, double skew, Rng& rng) {
  Frame out;
  while (out.exact.size() < n) out.exact.push_back(next_direction(out.exact, dim, rng));
  out.outside = next_direction(out.exact, dim, rng);
  for (std::size_t i = 0; i < n; ++i) {
    Wide leaning = out.exact[i];
    if (i < 2 && n >= 2) add(leaning, skew, out.exact[1 - i]);
    out.held.push_back(stored(leaning));
  }
  double const deviation = head_deviation(dim, n, [&](std::size_t i, std::size_t j) {
    return static_cast<double>(dot(wide(out.held[i]), wide(out.held[j])));
  });
  out.bound = head_bound(dim, n, deviation).value();
  return out;
}

// What a planted bug replaces, and the bits of the row's codes.
struct Parts {
  bool is_narrow = false;
  bool has_rest = true;
  bool has_row_residual = true;
  bool has_query_residual = true;
  bool has_deviation = true;
  bool has_projection = true;
  bool has_move = true;
};

HeadBound bound_of(Frame const& frame, Parts const& parts) {
  HeadBound bound = frame.bound;
  if (!parts.has_deviation) bound.deviation = 0.0;
  if (!parts.has_projection) bound.projection = bound.row_projection = 0.0;
  return bound;
}

struct Planed {
  std::vector<std::int8_t> codes;
  Int8Row row;
};

Vector padded(Vector x) {
  x.resize((x.size() + kLanes - 1) / kLanes * kLanes, 0.0f);
  return x;
}

Planed planed(Frame const& frame, Vector const& x, HeadBound const& bound, Parts const& parts,
              bool is_narrow = false) {
  std::size_t const n = frame.held.size();
  Vector head(head_dim(n));
  Vector const from = padded(x);
  for (std::size_t i = 0; i < n; ++i)
    cpu::scalar_dot_kernels().float32(from.data(), frame.held[i].data(), 1, x.size(), &head[i]);
  double const norm = norm_of(x);
  // The dots as computed lie within half of the slack that is given to them.
  long double square = 0;
  for (std::size_t i = 0; i < n; ++i) {
    long double const off = (head[i] - dot(wide(x), wide(frame.held[i]))) / norm;
    square += off * off;
  }
  CHECK(std::sqrt(square) <= bound.projection / 2);
  fill_rest(n, norm, bound, head.data());
  if (!parts.has_rest) std::fill_n(head.begin() + static_cast<std::ptrdiff_t>(n), 4, 0.0f);
  Planed out;
  out.codes.resize(head.size());
  auto const element = [&](std::size_t i) { return head[i]; };
  out.row = is_narrow ? quantize_nibbles(cpu::scalar_head_kernels(), head.size(), head.data(), norm,
                                         out.codes.data())
                      : quantize_row(head.size(), element, norm, out.codes.data());
  return out;
}

float canonical_score(Vector const& row, Vector const& query) {
  float found = 0.0f;
  cpu::scalar_dot_kernels().float32(padded(query).data(), row.data(), 1, row.size(), &found);
  return cosine(found, inverse_norm(norm_of(row)), inverse_norm(norm_of(query)));
}

void check_pair(Frame const& frame, Vector const& row, Vector const& query, Parts const& parts) {
  std::size_t const dim = row.size();
  HeadBound const bound = bound_of(frame, parts);
  Planed const r = planed(frame, row, bound, parts, parts.is_narrow);
  Planed const q = planed(frame, query, bound, parts);
  float const t = parts.has_query_residual ? q.row.residual : 0.0f;
  QueryBound const of_query = head_query_bound(dim, t, bound);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < r.codes.size(); ++i) sum += r.codes[i] * q.codes[i];
  float const a = first_pass_score(sum, r.row.scale, q.row.scale);
  float const s = canonical_score(row, query);
  float const residual = parts.has_row_residual ? r.row.residual : 0.0f;
  CHECK(reach(a, residual, of_query.per_residual) >= cut_for(s, of_query));
  // The row may wait beside those of an int8 plane, whatever the query's residual is there.
  for (float const residual_there : {0.0f, 0.004f, 0.5f}) {
    QueryBound const whole = query_bound(FirstPassPlane::kInt8, dim, residual_there);
    double const move = parts.has_move ? reach_move(of_query, whole) : 0.0;
    float const moved = moved_reach(reach(a, residual, of_query.per_residual), move);
    CHECK(moved >= cut_for(s, whole));
  }
  // Half of the slack is enough for what is computed.
  double const slack =
      bound.slack() + canonical_slack(dim) + first_pass_slack(FirstPassPlane::kInt8, dim) + 0x1p-22;
  CHECK(static_cast<double>(upper_score(a, residual, of_query)) - slack / 2 >= s);
}

// A vector with this much outside the directions, times 2^exponent.
Vector mixed(Frame const& frame, long double outside, int exponent, Rng& rng) {
  Wide x(frame.outside.size(), 0.0L);
  for (Wide const& one : frame.exact) add(x, gaussian(1, rng)[0], one);
  scale(x, std::sqrt(1 - outside * outside) / std::sqrt(dot(x, x)));
  add(x, outside, frame.outside);
  return stored(x, std::ldexp(1.0, exponent));
}

constexpr std::size_t kDims[] = {5, 33, 100, 256};
constexpr double kSkews[] = {0.0, 0x1p-12};

void check_shares(Parts const& parts) {
  Rng rng(11);
  for (std::size_t const dim : kDims) {
    for (std::size_t const n : {std::size_t{1}, dim / 4, dim / 2}) {
      if (n == 0) continue;
      for (double const skew : kSkews) {
        Frame const frame = frame_of(dim, n, skew, rng);
        // Outside the directions row and query have one direction: the rest is all that there is.
        for (long double const a : {0.0L, 1e-6L, 0.3L, 0.9L, 1.0L}) {
          for (long double const b : {0.0L, 0.5L, -0.5L, 1.0L}) {
            int const exponent = 50 * (rng.below(3) - 1);
            check_pair(frame, mixed(frame, a, exponent, rng), mixed(frame, b, -exponent, rng),
                       parts);
          }
        }
        Vector const same = mixed(frame, 0.4L, 0, rng);
        check_pair(frame, same, same, parts);
        check_pair(frame, stored(gaussian(dim, rng)), stored(gaussian(dim, rng)), parts);
      }
    }
  }
}

TEST(head_bound_holds_for_every_share_of_the_rest) {
  check_shares({});
  check_shares({.is_narrow = true});
}

// A vector whose dots with two directions that lean towards each other are as these numbers, which
// codes hold exactly.
Vector with_dots(Frame const& frame, double skew, int first, int second) {
  Wide x(frame.outside.size(), 0.0L);
  add(x, first - skew * second, frame.exact[0]);
  add(x, second - skew * first, frame.exact[1]);
  return stored(x);
}

// Heads that are orthogonal, of a row and a query that are not. The query has a rest, which some of
// these skews make a whole step of its codes: then no residual hides the deviation.
void check_leaning(Parts const& parts) {
  for (int i = 0; i < 200; ++i) {
    Rng rng(12);
    double const skew = 0x1p-13 * (0.8 + i * 0.002);
    Frame const frame = frame_of(64, 2, skew, rng);
    check_pair(frame, with_dots(frame, skew, 127, 63), with_dots(frame, skew, 63, -127), parts);
  }
}

TEST(head_bound_holds_for_directions_that_are_not_orthogonal) {
  check_leaning({});
  check_leaning({.is_narrow = true});
}

// What codes leave of a row, along a query that they hold, and the other way round: 59 elements
// just below half a step.
void check_lost_elements(Parts const& parts) {
  Rng rng(13);
  Frame const frame = frame_of(128, 60, 0.0, rng);
  Wide coarse = frame.exact[0];
  Wide fine(128, 0.0L);
  for (std::size_t i = 1; i < 60; ++i) {
    add(coarse, 0.49L / 127, frame.exact[i]);
    add(fine, 1.0L, frame.exact[i]);
  }
  check_pair(frame, stored(coarse), stored(fine), parts);
  check_pair(frame, stored(fine), stored(coarse), parts);
}

// A query that is what 4 bits leave of a row: all of the residual counts.
void check_left_by_nibbles(Parts const& parts) {
  Rng rng(15);
  Frame const frame = frame_of(128, 60, 0.0, rng);
  for (int i = 0; i < 20; ++i) {
    Vector const row = mixed(frame, 0.0L, 0, rng);
    Planed const held = planed(frame, row, frame.bound, {}, true);
    Wide left(128, 0.0L);
    for (std::size_t j = 0; j < 60; ++j) {
      long double const element = dot(wide(row), frame.exact[j]) / norm_of(row);
      add(left, element - int8_value(held.codes[j], held.row.scale), frame.exact[j]);
    }
    check_pair(frame, row, stored(left), parts);
  }
}

void check_outside(Parts const& parts) {
  Rng rng(14);
  Frame const frame = frame_of(64, 16, 0.0, rng);
  check_pair(frame, mixed(frame, 0.5L, 0, rng), mixed(frame, 0.5L, 0, rng), parts);
}

TEST(head_bound_holds_for_rows_made_against_it) {
  check_lost_elements({});
  check_outside({});
  check_lost_elements({.is_narrow = true});
  check_outside({.is_narrow = true});
  check_left_by_nibbles({.is_narrow = true});
}

TEST(head_bound_refuses_directions_that_are_no_basis) {
  CHECK(!head_bound(64, 8, 0.01).has_value());
  CHECK(!head_bound(64, 8, std::nan("")).has_value());
  CHECK(head_bound(64, 8, 1e-6).has_value());
  CHECK(head_bound(4096, 512, 1e-5).value().slack() < 5e-4);
  CHECK(head_bound(384, 172, 1e-6).value().slack() < 5e-5);
}

TEST(head_bound_holds_for_canonical_dots_of_rows_too) {
  for (std::size_t const dim : {1u, 384u, 4000u, 4001u, 4096u, 8192u, 131072u}) {
    double const canonical = head_projection(dim, 32, 1e-6);
    CHECK(head_row_projection(dim, 32, 1e-6) >= canonical);
    std::optional<HeadBound> const bound = head_bound(dim, 32, 1e-6);
    CHECK(bound.has_value() == (head_row_projection(dim, 32, 1e-6) <= kGreatestDeviation));
    if (bound) CHECK(bound->slack() >= bound->deviation + 2 * canonical);
  }
}

// ---- planted bugs

template <typename Check>
bool is_caught(Check const& check, Parts const& parts) {
  try {
    check(parts);
  } catch (Failure const&) {
    return true;
  }
  return false;
}

TEST(head_bound_planted_rest_left_out_is_caught) {
  CHECK(is_caught(check_outside, {.has_rest = false}));
  CHECK(is_caught(check_outside, {.is_narrow = true, .has_rest = false}));
}

TEST(head_bound_planted_residuals_left_out_are_caught) {
  CHECK(is_caught(check_lost_elements, {.has_row_residual = false}));
  CHECK(is_caught(check_lost_elements, {.has_query_residual = false}));
  CHECK(is_caught(check_left_by_nibbles, {.is_narrow = true, .has_row_residual = false}));
}

TEST(head_bound_planted_constant_left_out_is_caught) {
  CHECK(is_caught(check_lost_elements, {.has_move = false}));
}

TEST(head_bound_planted_roundings_of_the_rotation_left_out_are_caught) {
  CHECK(is_caught(check_leaning, {.has_deviation = false}));
  CHECK(is_caught(check_outside, {.has_projection = false}));
}

}  // namespace
}  // namespace hyrecall::testing
