// Heads of rows at a build: kernels of every instruction set equal plain definitions bit for bit,
// and heads err by no more than head_row_projection() says.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/dense/head.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/nibble_code.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using cpu::HeadKernels;
using Floats = std::vector<float>;

Floats drawn_floats(Rng& rng, std::size_t n) {
  Floats out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<float>(rng.unit() * 2.0 - 1.0));
  if (n > 3) out[3] = 0.0f;
  return out;
}

enum class RowBug { kNone, kDropsTail, kNextGroup, kNextRow, kOnePiece, kRoundsProducts };

// Rows and directions, both [n, dim].
struct Batch {
  std::size_t n_rows, n_directions, dim;
  Floats rows, directions;
};

Batch batch_of(Rng& rng, std::size_t n_rows, std::size_t n_directions, std::size_t dim) {
  return {n_rows, n_directions, dim, drawn_floats(rng, n_rows * dim),
          drawn_floats(rng, n_directions * dim)};
}

float by_definition(Batch const& b, std::size_t r, std::size_t j, RowBug bug) {
  std::size_t const n = b.dim - (bug == RowBug::kDropsTail ? 1 : 0);
  std::size_t const n_piece = bug == RowBug::kOnePiece ? n : cpu::head_piece(b.dim);
  if (bug == RowBug::kNextGroup) j = (j + cpu::kHeadGroup) % b.n_directions;
  if (bug == RowBug::kNextRow) r = (r + 1) % b.n_rows;
  float sum = 0.0f;
  for (std::size_t first = 0; first < n; first += n_piece) {
    float piece = 0.0f;
    for (std::size_t k = first; k < std::min(n, first + n_piece); ++k) {
      float const row = b.rows[r * b.dim + k];
      float const direction = b.directions[j * b.dim + k];
      float const volatile rounded = row * direction;
      piece = bug == RowBug::kRoundsProducts ? piece + rounded : std::fmaf(row, direction, piece);
    }
    sum = sum + piece;
  }
  return sum;
}

bool has_these_products(HeadKernels const& kernels, RowBug bug) {
  Rng rng(3);
  for (std::size_t const n_rows : {1u, 4u, 6u, 9u}) {
    for (std::size_t const n_directions : {1u, 16u, 40u, 112u}) {
      for (std::size_t const dim : {1u, 15u, 16u, 17u, 100u, 300u}) {
        Batch const b = batch_of(rng, n_rows, n_directions, dim);
        std::size_t const n_groups = (n_directions + cpu::kHeadGroup - 1) / cpu::kHeadGroup;
        Floats const others = grouped(b.directions.data(), n_directions, dim, n_groups);
        std::size_t const stride = n_groups * cpu::kHeadGroup;
        Floats found(n_rows * stride, 1.0f);
        kernels.products(b.rows.data(), n_rows, dim, cpu::head_piece(dim), others.data(), n_groups,
                         found.data());
        for (std::size_t r = 0; r < n_rows; ++r) {
          for (std::size_t j = 0; j < stride; ++j) {
            float const wanted = j < n_directions ? by_definition(b, r, j, bug) : 0.0f;
            if (found[r * stride + j] != wanted) return false;
          }
        }
      }
    }
  }
  return true;
}

TEST(head_rows_products_of_every_instruction_set_equal_the_definition) {
  for (cpu::Kernels const& one : cpu::found_kernels()) {
    if (!has_these_products(one.heads, RowBug::kNone))
      throw Failure(std::string("kernels differ: ") + one.name);
  }
}

TEST(head_rows_planted_bugs_in_products_are_caught) {
  HeadKernels const kernels = cpu::scalar_head_kernels();
  for (RowBug const bug : {RowBug::kDropsTail, RowBug::kNextGroup, RowBug::kNextRow,
                           RowBug::kOnePiece, RowBug::kRoundsProducts})
    CHECK(!has_these_products(kernels, bug));
}

TEST(head_rows_codes_of_every_instruction_set_have_the_same_bits) {
  HeadKernels const plain = cpu::scalar_head_kernels();
  for (cpu::Kernels const& one : cpu::found_kernels()) {
    Rng rng(5);
    for (std::size_t const n : {1u, 5u, 32u, 36u, 256u, 259u}) {
      Floats const x = drawn_floats(rng, n);
      std::vector<std::int8_t> codes(n);
      std::vector<std::int8_t> wanted(n);
      Int8Row const row = quantize_nibbles(one.heads, n, x.data(), 1.25, codes.data());
      Int8Row const same = quantize_nibbles(plain, n, x.data(), 1.25, wanted.data());
      CHECK(codes == wanted);
      CHECK(row.scale == same.scale && row.residual == same.residual);
      Floats scaled(n);
      one.heads.scale(x.data(), n, 0x1.8p-30f, scaled.data());
      for (std::size_t i = 0; i < n; ++i) CHECK(scaled[i] == x[i] * 0x1.8p-30f);
    }
  }
}

// ---- the bound

// Directions that are axes, or an orthogonal matrix of signs: the two ends of how they may lie.
Floats axes_or_signs(std::size_t dim, std::size_t n, bool is_axes) {
  Floats out(dim * n, 0.0f);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < dim; ++k) {
      bool const is_odd = __builtin_popcountll(i & k) % 2 != 0;
      double const sign = (is_odd ? -1.0 : 1.0) / std::sqrt(static_cast<double>(dim));
      out[i * dim + k] = is_axes ? (i == k ? 1.0f : 0.0f) : static_cast<float>(sign);
    }
  }
  return out;
}

// |h - a| of a row as a share of row_projection; no rest is too short.
double share_of_bound(Directions const& directions, Floats const& x) {
  std::size_t const dim = directions.dim();
  long double square = 0.0L;
  for (float const value : x) square += static_cast<long double>(value) * value;
  long double const norm = std::sqrt(square);
  auto const inverse = static_cast<float>(1.0L / norm);
  Floats head(directions.head_dim());
  directions.project_rows(x.data(), {&inverse, 1}, head.data());
  long double off = 0.0L;
  long double length = 0.0L;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    long double dot = 0.0L;
    for (std::size_t k = 0; k < dim; ++k)
      dot += static_cast<long double>(directions.values()[i * dim + k]) * x[k] / norm;
    off += (head[i] - dot) * (head[i] - dot);
    length += dot * dot;
  }
  long double const rest = std::sqrt(std::max(0.0L, 1.0L - length));
  for (std::size_t i = directions.size(); i < head.size(); ++i)
    CHECK(2.0L * head[i] >= rest - 1e-7L);  // directions are orthonormal but for roundings
  return static_cast<double>(std::sqrt(off) / directions.bound().row_projection);
}

Directions directions_of(std::size_t dim, std::size_t n, bool is_axes) {
  return {axes_or_signs(dim, n, is_axes), static_cast<std::uint32_t>(dim), "v"};
}

TEST(head_rows_err_by_no_more_than_half_of_the_bound) {
  Rng rng(6);
  for (std::size_t const dim : {2u, 64u, 512u}) {
    for (bool const is_axes : {true, false}) {
      Directions const directions = directions_of(dim, dim / 2, is_axes);
      for (double const factor : {0x1p-50, 1.0, 0x1p50}) {
        for (int i = 0; i < 20; ++i) {
          Floats x = drawn_floats(rng, dim);
          for (float& value : x) value *= static_cast<float>(factor);
          CHECK(share_of_bound(directions, x) <= 0.5);
        }
        Floats one(dim, 0.0f);
        one[0] = static_cast<float>(factor);
        CHECK(share_of_bound(directions, one) <= 0.5);
      }
    }
  }
}

// All roundings of a piece one way: products just below half an ulp of the first, which are lost.
// Canonical dots, whose lanes are shorter, cannot err as much.
TEST(head_rows_planted_bound_of_canonical_dots_is_caught) {
  constexpr std::size_t kDim = 32;
  double const small = std::sqrt(0x0.fdp-24 * std::sqrt(0.5));
  Floats x(kDim);
  for (std::size_t k = 0; k < kDim; ++k)
    x[k] = k % cpu::head_piece(kDim) == 0 ? 1.0f : static_cast<float>(small);
  Floats same = x;
  for (float& value : same) value *= static_cast<float>(std::sqrt(0.5) * (1.0 - 0x1p-20));
  Directions const directions(std::move(same), kDim, "v");
  double const off = share_of_bound(directions, x) * directions.bound().row_projection;
  CHECK(off <= directions.bound().row_projection);
  // The slack pays for the query's canonical dots and for these.
  HeadBound const& bound = directions.bound();
  CHECK(off > bound.projection * (1.0 + 0x1p-6));
  CHECK(bound.slack() - bound.deviation >= off + bound.projection);
}

TEST(head_rows_without_a_vector_have_a_head_of_zeros) {
  Directions const directions = directions_of(64, 20, false);
  Floats const x(64, 1.0f);
  float const none = 0.0f;
  Floats head(directions.head_dim(), 1.0f);
  directions.project_rows(x.data(), {&none, 1}, head.data());
  CHECK(std::all_of(head.begin(), head.end(), [](float value) { return value == 0.0f; }));
}

}  // namespace
}  // namespace hyrecall::testing
