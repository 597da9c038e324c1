#include "engine/dense/head_choice.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "core/formulas.hpp"
#include "core/parallel.hpp"
#include "engine/dense/head_balance.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {
namespace {

// With fewer rows, heads save too little scan time to pay for learning.
constexpr std::size_t kLeastRows = 65'536;
constexpr std::size_t kLeastDim = 128;
constexpr std::size_t kMostDim = 4'096;  // learning takes dim^3

constexpr std::size_t kLearnRows = 2'048;
constexpr int kRounds = 3;  // each has two products with the second moments

constexpr std::size_t kTrialRows = 4'096;
constexpr std::size_t kTrialQueries = 32;
// The trial uses rows as queries. A row has nearer neighbours than a query has: a query's 100th
// best row (an arm's default depth) is about as far as a row's 1,000th.
constexpr double kTrialDepth = 1'000;
constexpr float kTrialError = 0.112f;  // what quantising row and query adds to the bound of a score

constexpr double kWorthIt = 0.85;  // most cost of heads, as a share of the int8 plane's alone
constexpr double kNearly = 1.03;

// A matrix by rows, each padded with +0 to whole lanes.
struct Matrix {
  Matrix(std::size_t n_rows, std::size_t n_columns)
      : rows(n_rows),
        columns(n_columns),
        stride((n_columns + kLanes - 1) / kLanes * kLanes),
        values(n_rows * stride, 0.0f) {}
  float* row(std::size_t i) { return values.data() + i * stride; }
  float const* row(std::size_t i) const { return values.data() + i * stride; }

  std::size_t rows, columns, stride;
  std::vector<float> values;
};

// out[i] = <a, row begin + i>.
void dots(Matrix const& matrix, float const* a, std::size_t begin, std::size_t end, float* out) {
  cpu::kernels().dot.float32(a, matrix.row(begin), end - begin, matrix.stride, out);
}

double norm_of(float const* values, std::size_t n) {
  return row_norm(n, [&](std::size_t i) { return static_cast<double>(values[i]); });
}

// Unit rows of a column, spread evenly over it; rows without a vector stay 0.
Matrix sample(DenseColumn const& column, std::size_t most) {
  std::size_t const n = column.n_rows();
  Matrix out(std::min(n, most), column.dim);
  for (std::size_t i = 0; i < out.rows; ++i) {
    float* const values = out.row(i);
    column.widen(static_cast<Row>(i * n / out.rows), values);
    double const norm = norm_of(values, column.dim);
    bool const is_there = norm != 0.0 && is_norm(norm);  // a forged file may hold anything
    for (std::size_t k = 0; k < column.dim; ++k)
      values[k] = is_there ? static_cast<float>(values[k] / norm) : 0.0f;
  }
  return out;
}

Matrix transposed(Matrix const& of) {
  Matrix out(of.columns, of.rows);
  constexpr std::size_t kAtOnce = 16;  // numbers of a cache line
  for (std::size_t first = 0; first < of.rows; first += kAtOnce) {
    std::size_t const end = std::min(of.rows, first + kAtOnce);
    for (std::size_t k = 0; k < of.columns; ++k) {
      for (std::size_t i = first; i < end; ++i) out.row(k)[i] = of.row(i)[k];
    }
  }
  return out;
}

constexpr std::size_t kProductRows = 32;  // rows that a thread takes at a time

// a b' of matrices with rows of one length.
Matrix product(Matrix const& a, Matrix const& b, int threads) {
  Matrix out(a.rows, b.rows);
  static_assert(kLanes % cpu::kHeadGroup == 0);
  std::size_t const n_groups = out.stride / cpu::kHeadGroup;
  std::vector<float> const others = grouped(b.values.data(), b.rows, b.stride, n_groups);
  std::size_t const n_parts = (a.rows + kProductRows - 1) / kProductRows;
  parallel_for(n_parts, threads, [&](int, std::size_t part) {
    std::size_t const first = part * kProductRows;
    cpu::kernels().heads.products(a.row(first), std::min(kProductRows, a.rows - first), a.stride,
                                  cpu::head_piece(a.stride), others.data(), n_groups,
                                  out.row(first));
  });
  return out;
}

// Pseudo-random signs: the same in every process.
Matrix signs(std::size_t n_rows, std::size_t n_columns) {
  Matrix out(n_rows, n_columns);
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < n_rows; ++i) {
    for (std::size_t k = 0; k < n_columns; ++k) {
      state = state * 6364136223846793005 + 1442695040888963407;
      out.row(i)[k] = (state >> 63) != 0 ? 1.0f : -1.0f;
    }
  }
  return out;
}

// Makes the rows orthonormal by Gram-Schmidt, applied twice because of rounding. A row in the span
// of the rows before it is replaced by the first axis that they do not span.
void orthonormalize(Matrix& rows) {
  std::vector<float> along(rows.rows);
  std::size_t axis = 0;
  for (std::size_t i = 0; i < rows.rows; ++i) {
    float* const own = rows.row(i);
    for (;;) {
      double const before = norm_of(own, rows.columns);
      for (int pass = 0; pass < 2; ++pass) {
        dots(rows, own, 0, i, along.data());
        for (std::size_t j = 0; j < i; ++j) {
          float const factor = along[j];
          float const* const other = rows.row(j);
          for (std::size_t k = 0; k < rows.stride; ++k) own[k] -= factor * other[k];
        }
      }
      if (norm_of(own, rows.columns) > 1e-3 * before) break;
      std::fill(own, own + rows.stride, 0.0f);
      own[axis++] = 1.0f;
    }
    auto const factor = static_cast<float>(1.0 / norm_of(own, rows.columns));
    for (std::size_t k = 0; k < rows.stride; ++k) own[k] *= factor;
  }
}

// The rows' directions of most energy, the strongest first, by subspace iteration. The last
// directions need not be exact: a few rounds give nearly all the energy.
Matrix strongest(Matrix const& rows, std::size_t n_directions, int threads) {
  Matrix const columns = transposed(rows);
  Matrix const moments = product(columns, columns, threads);
  Matrix found = signs(n_directions, rows.columns);
  for (int round = 0; round < kRounds; ++round) {
    found = product(product(found, moments, threads), moments, threads);
    orthonormalize(found);
  }
  return found;
}

// For each query, [sizes]: the share of rows that pass with a head of the first sizes[i]
// directions. The queries are rows of a sample.
using Shares = std::vector<std::vector<double>>;

Shares try_sizes(DenseColumn const& column, Matrix const& directions,
                 std::span<std::size_t const> sizes, int threads) {
  Matrix const rows = sample(column, kTrialRows);
  Matrix const heads = product(rows, directions, threads);
  Matrix const by_element = transposed(heads);
  double const rank = kTrialDepth * static_cast<double>(rows.rows) /
                      static_cast<double>(std::max<std::size_t>(column.n_rows(), 1));
  std::size_t const depth = static_cast<std::size_t>(std::ceil(rank)) + 1;  // and the row itself
  std::vector<std::vector<float>> rests(sizes.size(), std::vector<float>(rows.rows));
  for (std::size_t r = 0; r < rows.rows; ++r) {
    float square = 0.0f;
    for (std::size_t s = 0, k = 0; s < sizes.size(); ++s) {
      for (; k < sizes[s]; ++k) square += heads.row(r)[k] * heads.row(r)[k];
      rests[s][r] = std::sqrt(std::max(0.0f, 1.0f - square));
    }
  }
  std::size_t const n_queries = std::min(kTrialQueries, rows.rows);
  Shares shares(n_queries);
  parallel_for(n_queries, threads, [&](int, std::size_t q) {
    std::size_t const own = q * rows.rows / n_queries;
    std::vector<float> scores(rows.rows);
    dots(rows, rows.row(own), 0, rows.rows, scores.data());
    std::vector<float> sorted = scores;
    std::size_t const at = std::min(depth, sorted.size() - 1);
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at), sorted.end(),
                     std::greater<>());
    float const threshold = sorted[at];
    std::vector<std::size_t> n_passed(sizes.size());
    std::vector<float> sums(rows.rows);
    for (std::size_t s = 0, k = 0; s < sizes.size(); ++s) {
      for (; k < sizes[s]; ++k) {
        float const factor = heads.row(own)[k];
        float const* const elements = by_element.row(k);
        for (std::size_t r = 0; r < rows.rows; ++r) sums[r] += factor * elements[r];
      }
      for (std::size_t r = 0; r < rows.rows; ++r) {
        float const most = sums[r] + rests[s][own] * rests[s][r] + kTrialError;
        n_passed[s] += most >= threshold ? 1 : 0;
      }
    }
    for (std::size_t const n : n_passed)
      shares[q].push_back(static_cast<double>(n) / static_cast<double>(rows.rows));
  });
  return shares;
}

// Of the sizes whose cost is close to the least, the largest, since hard queries gain from it; 0 if
// no size pays.
std::size_t best_size(DenseColumn const& column, Matrix const& directions,
                      std::span<std::size_t const> sizes, int threads) {
  Shares const shares = try_sizes(column, directions, sizes, threads);
  auto const row_bytes = [](std::size_t dim, CodeBits bits) {
    return static_cast<double>(cpu::block_bytes(dim, bits)) / cpu::kInt8BlockRows + 8.0;
  };
  double const whole = row_bytes(column.dim, CodeBits::k8);
  std::vector<double> costs;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    double cost = 0.0;  // a query that lets too many pass reads the int8 plane alone
    for (auto const& of_query : shares)
      cost += std::min(
          whole, row_bytes(head_dim(sizes[s]), CodeBits::k4) + kRowCost * of_query[s] * whole);
    costs.push_back(cost / static_cast<double>(std::max<std::size_t>(shares.size(), 1)));
  }
  double const least = *std::min_element(costs.begin(), costs.end());
  if (least >= kWorthIt * whole) return 0;
  std::size_t last = costs.size() - 1;
  while (costs[last] > kNearly * least) --last;
  return sizes[last];
}

// Rotates the directions within the space that they span, so that a head's elements are about
// equally large, and codes of few bits lose least.
Matrix mixed(Matrix const& directions, std::size_t size, int threads) {
  Matrix mixture = signs(size, size);
  orthonormalize(mixture);
  Matrix first(size, directions.columns);
  std::copy_n(directions.values.begin(), first.values.size(), first.values.begin());
  Matrix out = product(mixture, transposed(first), threads);
  orthonormalize(out);
  return out;
}

}  // namespace

std::vector<std::size_t> head_sizes(std::size_t dim) {
  // Heads fill whole lines of 4 bits, and have at most two thirds of the dimensions. Then both
  // planes take less than 37 % of the bytes of float32 rows.
  constexpr std::size_t kStep = cpu::line_step(CodeBits::k4);
  std::vector<std::size_t> sizes;
  for (std::size_t const dims : {dim / 3, dim / 2, dim * 7 / 12, dim * 2 / 3}) {
    std::size_t const size = std::min(dims, kMostDirections) / kStep * kStep - kRestElements;
    if (sizes.empty() || size > sizes.back()) sizes.push_back(size);
  }
  return sizes;
}

HeadChoice choose_head(DenseColumn const& column, int threads, FirstPassChoice choice) {
  bool const is_forced = forces_heads(choice);
  CodeBits const bits = choice == FirstPassChoice::kHead8 ? CodeBits::k8 : CodeBits::k4;
  bool const may_pay = choice == FirstPassChoice::kAny && column.n_rows() >= kLeastRows &&
                       column.dim >= kLeastDim && column.dim <= kMostDim;
  if (!is_forced && !may_pay) return {};
  Matrix const rows = sample(column, kLearnRows);
  std::vector<std::size_t> sizes;
  if (!is_forced) sizes = head_sizes(column.dim);
  std::size_t size = is_forced ? std::min<std::size_t>((column.dim + 1) / 2, 32) : sizes.back();
  Matrix const directions = strongest(rows, size, threads);
  if (!is_forced) size = best_size(column, directions, sizes, threads);
  if (size == 0) return {};
  Matrix const found = mixed(directions, size, threads);
  std::vector<float> values(size * column.dim);
  for (std::size_t i = 0; i < size; ++i)
    std::copy_n(found.row(i), column.dim,
                values.begin() + static_cast<std::ptrdiff_t>(i * column.dim));
  return {std::make_shared<Directions>(std::move(values), column.dim, column.name), bits};
}

}  // namespace hyrecall
