// What:   integer dots of a panel of up to 8 queries with one or two blocks of 16 rows of the int8
//         plane, then reach() of kernels/int8_bound.hpp on 16 rows at a time, compared with each
//         query's cut. Dots are exact, so every instruction set finds the same rows.
// In/Out: see first_pass.hpp.
// Cost:   16 rows x 8 queries: a load and 8 broadcasts for 8 products, bound by memory (7 of the
//         queries are free). 32 x 8: two loads, 16 products: bound by the products.
// Oracle: tests/native/test_first_pass_kernels.cpp, first_pass_score() and reach().
//
// Included once by each first_pass_<isa>.cpp inside its own and an anonymous namespace, after it
// has defined Line, Quad, Block, Sums, kAtOnce (queries in one pass) and kBlocks (blocks in one
// pass). The k-loop is a function of its own: with the comparison in it GCC 12 spills the sums at
// each step.

#include "kernels/cpu/most.inl.hpp"

constexpr int kWidth = 8;

// Slow, a line is asked for twice: a branch would cost more.
inline void ask(FirstPassPrefetch ahead, std::size_t step) {
  if (ahead.lines != nullptr) __builtin_prefetch(ahead.lines + (step >> ahead.slow) * 64, 0, 2);
}

template <int kRowBlocks, int kQueries>
[[gnu::noinline]] void dots(std::uint8_t const* codes, std::size_t block_bytes,
                            std::uint8_t const* queries, std::int32_t const* offsets,
                            std::size_t n_steps, FirstPassPrefetch ahead, Sums* out) {
  Sums sums[kRowBlocks * kQueries];
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlocks * kQueries; ++i) sums[i] = Sums::start(offsets[i % kQueries]);
  for (std::size_t step = 0; step < n_steps; ++step) {
    Line lines[kRowBlocks];
#pragma GCC unroll 2
    for (int b = 0; b < kRowBlocks; ++b)
      lines[b] = Line::load(codes + static_cast<std::size_t>(b) * block_bytes + step * 64);
    ask(ahead, step);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      Quad const quad = Quad::load(queries + (step * kWidth + static_cast<std::size_t>(q)) * 4);
#pragma GCC unroll 2
      for (int b = 0; b < kRowBlocks; ++b) sums[b * kQueries + q].add(lines[b], quad);
    }
  }
#pragma GCC unroll 2
  for (int b = 0; b < kRowBlocks; ++b) {
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) out[b * kWidth + q] = sums[b * kQueries + q];
  }
}

// One query: four sums, because one would wait for itself. Its panel is its codes.
[[gnu::noinline]] void dots_of_one(std::uint8_t const* codes, std::uint8_t const* query,
                                   std::int32_t offset, std::size_t n_steps,
                                   FirstPassPrefetch ahead, Sums* out) {
  Sums sums[4] = {Sums::start(offset), Sums::zero(), Sums::zero(), Sums::zero()};
  std::size_t step = 0;
  for (; step + 4 <= n_steps; step += 4) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      ask(ahead, step + i);
      sums[i].add(Line::load(codes + (step + i) * 64), Quad::load(query + (step + i) * 4));
    }
  }
  for (; step < n_steps; ++step)
    sums[0].add(Line::load(codes + step * 64), Quad::load(query + step * 4));
  sums[0].join(sums[1]);
  sums[2].join(sums[3]);
  sums[0].join(sums[2]);
  *out = sums[0];
}

// Which rows pass; then how far those reach, since few queries have any.
template <int kRowBlocks>
std::uint32_t compare(FirstPassRows const& rows, FirstPassQueries const& queries, Sums const* sums,
                      FirstPassSurvivors& hits) {
  Block blocks[kRowBlocks];
  for (int b = 0; b < kRowBlocks; ++b)
    blocks[b] = Block::load(rows.scales + b * 16, rows.residuals + b * 16);
  std::uint32_t all = 0;
  for (int q = 0; q < queries.n; ++q) {
    float const scale = queries.scales[q];
    float const per_residual = queries.per_residual[q];
    std::uint32_t passed = 0;
    for (int b = 0; b < kRowBlocks; ++b)
      passed |= sums[b * kWidth + q].passes(blocks[b], scale, per_residual, queries.cuts[q])
                << (b * 16);
    hits.rows[q] = passed;
    all |= passed;
  }
  if (all == 0) return 0;
  std::uint32_t any = 0;
  for (int q = 0; q < queries.n; ++q) any |= static_cast<std::uint32_t>(hits.rows[q] != 0) << q;
  for (std::uint32_t left = any; left != 0; left &= left - 1) {
    int const q = __builtin_ctz(left);
    for (int b = 0; b < kRowBlocks; ++b)
      sums[b * kWidth + q].store_reach(blocks[b], queries.scales[q], queries.per_residual[q],
                                       hits.reach[q] + b * 16);
  }
  return any;
}

// sums[b * kWidth + q]: the dots of block b with query q.
inline void all_dots(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
                     FirstPassPrefetch ahead, Sums* sums) {
  std::size_t const n_steps = (dim + 3) / 4;
  std::size_t const block_bytes = n_steps * 64;
  if (queries.n == 1) {
    for (int b = 0; b < rows.n_blocks; ++b)
      dots_of_one(rows.codes + static_cast<std::size_t>(b) * block_bytes, queries.codes,
                  queries.offsets[0], n_steps, ahead, sums + b * kWidth);
  } else if (kBlocks == 2 && rows.n_blocks == 2) {
    for (int q = 0; q < kWidth; q += kAtOnce)
      dots<kBlocks, kAtOnce>(rows.codes, block_bytes, queries.codes + q * 4, queries.offsets + q,
                             n_steps, ahead, sums + q);
  } else {
    for (int b = 0; b < rows.n_blocks; ++b) {
      for (int q = 0; q < queries.n; q += kAtOnce)
        dots<1, kAtOnce>(rows.codes + static_cast<std::size_t>(b) * block_bytes, block_bytes,
                         queries.codes + q * 4, queries.offsets + q, n_steps, ahead,
                         sums + b * kWidth + q);
    }
  }
}

inline std::uint32_t find_rows(FirstPassRows const& rows, std::size_t dim,
                               FirstPassQueries const& queries, FirstPassPrefetch ahead,
                               FirstPassSurvivors& hits) {
  Sums sums[kFirstPassBlocks * kWidth];
  all_dots(rows, dim, queries, ahead, sums);
  return rows.n_blocks == 2 ? compare<2>(rows, queries, sums, hits)
                            : compare<1>(rows, queries, sums, hits);
}

inline void reach_rows(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
                       FirstPassPrefetch ahead, float (*reach)[kReachRows]) {
  Sums sums[kFirstPassBlocks * kWidth];
  all_dots(rows, dim, queries, ahead, sums);
  for (int b = 0; b < rows.n_blocks; ++b) {
    Block const block = Block::load(rows.scales + b * 16, rows.residuals + b * 16);
    for (int q = 0; q < queries.n; ++q)
      sums[b * kWidth + q].store_reach(block, queries.scales[q], queries.per_residual[q],
                                       reach[q] + b * 16);
  }
}

inline std::size_t panel_bytes(int n, std::size_t dim) {
  return (dim + 3) / 4 * 4 * static_cast<std::size_t>(n == 1 ? 1 : kWidth);
}

// [n_steps][8][4]; a panel of one is [n_steps][4].
inline void pack(std::int8_t const* const* codes, int n, std::size_t dim, std::uint8_t* panel) {
  std::size_t const stride = n == 1 ? 1 : kWidth;
  std::size_t const n_bytes = panel_bytes(n, dim);
  for (std::size_t i = 0; i < n_bytes; ++i) panel[i] = 0;
  for (int q = 0; q < n; ++q) {
    std::uint8_t* to = panel + static_cast<std::size_t>(q) * 4;
    std::size_t i = 0;
    for (; i + 4 <= dim; i += 4, to += stride * 4) __builtin_memcpy(to, codes[q] + i, 4);
    for (; i < dim; ++i) to[i % 4] = static_cast<std::uint8_t>(codes[q][i]);
  }
}

inline FirstPassKernels make_first_pass_kernels(char const* name) {
  return {name,       kWidth,     -128,      panel_bytes,   pack,  find_rows,
          reach_rows, raise_most, fold_most, find_reaching, [] {}, [] {}};
}
