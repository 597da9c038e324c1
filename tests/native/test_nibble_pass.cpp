// The first pass over codes of 4 bits: what a row's codes are, and that the kernels of every
// instruction set equal the definition, the same rows and the same reach, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/formulas.hpp"
#include "engine/dense/code_plane.hpp"
#include "kernels/cpu/first_pass.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/nibble_code.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

using cpu::FirstPassKernels;
using cpu::FirstPassQueries;
using cpu::FirstPassRows;
using cpu::FirstPassSurvivors;

enum class Bug {
  kNone,
  kSwapsHalves,       // the high half of a byte for the low one
  kForgetsHigh,       // the high halves count for nothing
  kDropsTail,         // a last line that is not full
  kEvenCodes,         // nibbles from -7 to 8
  kReadsPadding,      // beyond a vector's elements
  kScaleOfFirstBlock  // for both
};

int code_at(std::uint8_t const* block, int row, std::size_t i, Bug bug) {
  std::uint8_t const byte = block[i / 8 * 64 + static_cast<std::size_t>(row) * 4 + i % 4];
  bool const is_high = (i % 8 >= 4) != (bug == Bug::kSwapsHalves);
  if (is_high && bug == Bug::kForgetsHigh) return 0;
  auto const nibble = static_cast<std::uint8_t>(is_high ? byte >> 4 : byte & 15);
  return bug == Bug::kEvenCodes ? 2 * nibble - 14 : code_of_nibble(nibble);
}

struct Case {
  std::size_t dim;
  int n_blocks;
  int n;
  bool is_extreme;  // nibbles 0 and 15, codes +-127
};

struct NibbleWorld {
  Case c;
  std::vector<std::uint8_t> rows;
  std::vector<float> scales, residuals;
  std::vector<std::vector<std::int8_t>> queries;
  std::vector<float> query_scales, per_residual, cuts;
};

NibbleWorld nibble_world_of(Rng& rng, Case const& c) {
  NibbleWorld w{c, {}, {}, {}, {}, {}, {}, {}};
  w.rows.resize(static_cast<std::size_t>(c.n_blocks) * cpu::block_bytes(c.dim, cpu::CodeBits::k4));
  for (std::uint8_t& byte : w.rows) {
    auto const half = [&] { return c.is_extreme ? 15 * rng.below(2) : rng.below(16); };
    byte = static_cast<std::uint8_t>(half() | half() << 4);
  }
  for (int r = 0; r < 32; ++r) {
    w.scales.push_back(static_cast<float>(1e-3 * (1.0 + rng.unit())));
    w.residuals.push_back(rng.below(6) == 0 ? -std::numeric_limits<float>::infinity()
                                            : static_cast<float>(0.2 * rng.unit()));
  }
  for (int q = 0; q < c.n; ++q) {
    std::vector<std::int8_t>& codes = w.queries.emplace_back(c.dim);
    for (std::int8_t& one : codes)
      one =
          static_cast<std::int8_t>(c.is_extreme ? 254 * rng.below(2) - 127 : rng.below(255) - 127);
    w.query_scales.push_back(static_cast<float>(1e-3 * (1.0 + rng.unit())));
    w.per_residual.push_back(static_cast<float>(1.0 + 0.01 * rng.unit()));
    w.cuts.push_back(-std::numeric_limits<float>::infinity());
  }
  return w;
}

float reach_of(NibbleWorld const& w, int q, int r, Bug bug) {
  std::size_t const dim = w.c.dim;
  std::uint8_t const* const block =
      w.rows.data() + static_cast<std::size_t>(r / 16) * cpu::block_bytes(dim, cpu::CodeBits::k4);
  auto const& query = w.queries[static_cast<std::size_t>(q)];
  std::size_t const n_read = bug == Bug::kDropsTail ? dim / 8 * 8 : dim;
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < n_read; ++i) dot += code_at(block, r % 16, i, bug) * query[i];
  if (bug == Bug::kReadsPadding && dim % 8 != 0) dot += code_at(block, r % 16, dim, bug);
  auto const at = static_cast<std::size_t>(r);
  float const scale = w.scales[bug == Bug::kScaleOfFirstBlock ? at % 16 : at];
  auto const of_query = static_cast<std::size_t>(q);
  return reach(first_pass_score(dot, scale, w.query_scales[of_query]), w.residuals[at],
               w.per_residual[of_query]);
}

// What a kernel says: a row's reach where it passes, NaN where it does not.
std::vector<float> passed_by(FirstPassKernels const& kernels, NibbleWorld const& w) {
  std::vector<std::int8_t const*> pointers;
  std::vector<std::int32_t> offsets;
  for (auto const& codes : w.queries) {
    std::int32_t sum = 0;
    for (std::int8_t const one : codes) sum += one;
    pointers.push_back(codes.data());
    offsets.push_back(kernels.offset * sum);
  }
  offsets.resize(static_cast<std::size_t>(w.c.n + kernels.width), 1 << 30);  // must not show
  std::vector<std::uint8_t> panel(kernels.panel_bytes(w.c.n, w.c.dim), 0xff);
  kernels.pack(pointers.data(), w.c.n, w.c.dim, panel.data());
  FirstPassQueries const queries{panel.data(),          offsets.data(), w.query_scales.data(),
                                 w.per_residual.data(), w.cuts.data(),  w.c.n};
  FirstPassRows const rows{w.rows.data(), w.scales.data(), w.residuals.data(), w.c.n_blocks};
  FirstPassSurvivors hits;
  std::memset(&hits, 0xff, sizeof hits);
  cpu::FirstPassSession const session(kernels);
  std::uint32_t const any = kernels.find_rows(rows, w.c.dim, queries, {w.rows.data(), 0}, hits);
  std::vector<float> out;
  for (int q = 0; q < w.c.n; ++q) {
    if ((any >> q & 1) != (hits.rows[q] != 0 ? 1u : 0u)) return {};
    for (int r = 0; r < w.c.n_blocks * 16; ++r)
      out.push_back((hits.rows[q] >> r & 1) != 0 ? hits.reach[q][r] : NAN);
  }
  return out;
}

std::vector<float> passed_by_definition(NibbleWorld const& w, Bug bug) {
  std::vector<float> out;
  for (int q = 0; q < w.c.n; ++q) {
    for (int r = 0; r < w.c.n_blocks * 16; ++r) {
      float const reached = reach_of(w, q, r, bug);
      out.push_back(reached >= w.cuts[static_cast<std::size_t>(q)] ? reached : NAN);
    }
  }
  return out;
}

bool are_equal(std::vector<float> const& a, std::vector<float> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// found(world): what passes.
template <typename Found>
bool always_agrees(int width, Found&& found) {
  Rng rng(7);
  for (std::size_t const dim : {5u, 8u, 9u, 12u, 16u, 31u, 64u, 65u, 100u, 224u, 256u, 516u}) {
    for (int round = 0; round < 10; ++round) {
      int const n = round == 0 ? 1 : round == 1 ? width : 1 + rng.below(width);
      NibbleWorld w = nibble_world_of(rng, {dim, 1 + round % 2, n, round % 4 == 3});
      for (int q = 0; q < n; ++q) {  // of every third query nothing passes
        w.cuts[static_cast<std::size_t>(q)] = rng.below(3) == 0
                                                  ? std::numeric_limits<float>::infinity()
                                                  : reach_of(w, q, rng.below(16), Bug::kNone);
      }
      if (!are_equal(found(w), passed_by_definition(w, Bug::kNone))) return false;
    }
  }
  return true;
}

TEST(nibble_pass_kernels_of_every_instruction_set_equal_the_definition) {
  for (cpu::Kernels const& found : cpu::found_kernels()) {
    FirstPassKernels const& kernels = found.nibble_pass;
    if (!always_agrees(kernels.width, [&](NibbleWorld const& w) { return passed_by(kernels, w); }))
      throw Failure(std::string("kernels differ: ") + kernels.name);
  }
}

TEST(nibble_pass_planted_bugs_are_caught) {
  auto const is_right = [](Bug bug) {
    return always_agrees(8, [&](NibbleWorld const& w) { return passed_by_definition(w, bug); });
  };
  CHECK(is_right(Bug::kNone));
  CHECK(!is_right(Bug::kSwapsHalves));
  CHECK(!is_right(Bug::kForgetsHigh));
  CHECK(!is_right(Bug::kDropsTail));
  CHECK(!is_right(Bug::kEvenCodes));
  CHECK(!is_right(Bug::kReadsPadding));
  CHECK(!is_right(Bug::kScaleOfFirstBlock));
}

// ---- codes of a row

using Vector = std::vector<float>;

double norm_of(Vector const& x) {
  return row_norm(x.size(), [&](std::size_t i) { return static_cast<double>(x[i]); });
}

Int8Row quantized(Vector const& x, double norm, std::vector<std::int8_t>& codes) {
  codes.assign(x.size(), 0);
  return quantize_nibbles(cpu::scalar_head_kernels(), x.size(), x.data(), norm, codes.data());
}

Vector gaussian(std::size_t n, Rng& rng, double factor) {
  Vector out;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = -6.0;
    for (int k = 0; k < 12; ++k) sum += rng.unit();
    out.push_back(static_cast<float>(sum * factor));
  }
  return out;
}

std::vector<Vector> rows_of_all_kinds(std::size_t dim) {
  Rng rng(9);
  std::vector<Vector> rows;
  for (int exponent : {-50, 0, 50}) {
    double const factor = std::ldexp(1.0, exponent);
    rows.push_back(gaussian(dim, rng, factor));
    rows.push_back(Vector(dim, static_cast<float>(factor)));
    Vector one(dim, 0.0f);  // a single element: codes give each of the others at least 1
    one[dim / 2] = static_cast<float>(-factor);
    rows.push_back(one);
    Vector falling;
    for (std::size_t i = 0; i < dim; ++i)
      falling.push_back(static_cast<float>(factor * std::pow(0.8, static_cast<double>(i % 60))));
    rows.push_back(falling);
  }
  return rows;
}

TEST(nibble_codes_are_odd_keep_signs_and_are_no_longer_than_the_row) {
  for (std::size_t const dim : {5u, 33u, 256u, 516u}) {
    for (Vector const& x : rows_of_all_kinds(dim)) {
      double const norm = norm_of(x);
      std::vector<std::int8_t> codes;
      Int8Row const row = quantized(x, norm, codes);
      double square = 0.0;
      double left = 0.0;
      for (std::size_t i = 0; i < dim; ++i) {
        CHECK(std::abs(codes[i]) <= kNibbleMost && codes[i] % 2 != 0);
        CHECK(code_of_nibble(nibble_of(codes[i])) == codes[i]);
        if (x[i] != 0.0f) CHECK((x[i] < 0.0f) == (codes[i] < 0));
        double const held = int8_value(codes[i], row.scale);
        square += held * held;
        left += (x[i] / norm - held) * (x[i] / norm - held);
      }
      CHECK(std::sqrt(square) <= 1.0 + 0x1p-20);
      CHECK(row.residual >= std::sqrt(left) * (1.0 - 0x1p-40));
      CHECK(row.residual <= std::sqrt(left) * (1.0 + 0x1p-20) + 0x1p-40);
      CHECK(row.residual <= 1.0f + 0x1p-20f);
      CHECK(row.scale >= 1.0f / (225.0f * static_cast<float>(dim)));
    }
  }
}

// The step is the one that leaves least of a normal distribution: .0116 of its energy.
TEST(nibble_codes_leave_a_tenth_of_rows_whose_elements_are_alike) {
  Rng rng(10);
  std::vector<std::int8_t> codes;
  double sum = 0.0;
  for (int i = 0; i < 50; ++i) {
    Vector const x = gaussian(256, rng, 1.0);
    sum += quantized(x, norm_of(x), codes).residual;
  }
  CHECK(sum / 50 < 0.11);
  Vector const zero(40, 0.0f);
  CHECK(quantized(zero, norm_of(zero), codes).scale == 0.0f);
  CHECK(quantized(gaussian(40, rng, 1.0), 0.0, codes).residual == 0.0f);
}

// ---- planes

TEST(nibble_planes_hold_the_codes_of_each_row_where_kernels_look_for_them) {
  constexpr std::size_t kRows = 37;
  for (std::uint32_t const dim : {5u, 8u, 20u, 33u}) {
    Rng rng(12);
    CodePlaneBuilder builder(kRows, dim, CodeBits::k4);
    std::vector<std::vector<std::int8_t>> codes(kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      Vector const x = gaussian(dim, rng, 1.0);
      Int8Row const row = quantized(x, r == 3 ? 0.0 : norm_of(x), codes[r]);
      builder.set(static_cast<Row>(r), row, codes[r].data());
    }
    CodePlane const plane = std::move(builder).finish();
    plane.check(kRows, dim, "plane");
    CodePlaneBuilder other(kRows, dim, CodeBits::k4);
    for (std::size_t r = 0; r < kRows; ++r)
      other.copy(static_cast<Row>(r), plane, static_cast<Row>(kRows - 1 - r));
    CodePlane const turned = std::move(other).finish();
    for (std::size_t r = 0; r < kRows; ++r) {
      std::size_t const from = kRows - 1 - r;
      CHECK(std::isinf(plane.residuals[r]) == (r == 3));
      CHECK(turned.scales[r] == plane.scales[from]);
      for (std::size_t i = 0; i < dim; ++i) {
        auto const held = [&](CodePlane const& of, std::size_t row) {
          return code_at(of.codes.data() + row / 16 * cpu::block_bytes(dim, CodeBits::k4),
                         static_cast<int>(row % 16), i, Bug::kNone);
        };
        if (r != 3) CHECK(held(plane, r) == codes[r][i]);
        CHECK(held(turned, r) == held(plane, from));
      }
    }
    for (std::size_t r = kRows; r < plane.residuals.size(); ++r)
      CHECK(std::isinf(plane.residuals[r]));
  }
}

}  // namespace
}  // namespace hyrecall::testing
