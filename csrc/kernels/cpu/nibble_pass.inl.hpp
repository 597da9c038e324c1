// What:   the first pass of first_pass.inl.hpp over a plane of 4 bits: a line of 64 bytes is two
//         steps of 16 rows x 4 elements.
// In/Out: see first_pass.hpp. The panel is that of a plane of 8 bits, with an even number of steps.
// Cost:   half the bytes of a plane of 8 bits, and two operations more a line to take it apart.
// Oracle: tests/native/test_nibble_pass.cpp, first_pass_score() and reach().
//
// Included after first_pass.inl.hpp by each first_pass_<isa>.cpp, which has defined Nibbles (a line
// with its low and its high halves as lines of codes from 0 to 15), Sums::add() of such a line, and
// Sums::centre(), which makes 2 x sum + offset of a sum: the dot with the odd codes.

template <int kQueries>
[[gnu::noinline]] void nibble_dots(std::uint8_t const* codes, std::uint8_t const* queries,
                                   std::int32_t const* offsets, std::size_t n_lines,
                                   FirstPassPrefetch ahead, Sums* out) {
  Sums sums[kQueries];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) sums[q] = Sums::zero();
  for (std::size_t i = 0; i < n_lines; ++i) {
    Nibbles const line = Nibbles::load(codes + i * 64);
    ask(ahead, i);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      std::uint8_t const* const at = queries + (2 * i * kWidth + static_cast<std::size_t>(q)) * 4;
      sums[q].add(line.low, Quad::load(at));
      sums[q].add(line.high, Quad::load(at + kWidth * 4));
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
    sums[q].centre(offsets[q]);
    out[q] = sums[q];
  }
}

[[gnu::noinline]] void nibble_dots_of_one(std::uint8_t const* codes, std::uint8_t const* query,
                                          std::int32_t offset, std::size_t n_lines,
                                          FirstPassPrefetch ahead, Sums* out) {
  Sums sums[4] = {Sums::zero(), Sums::zero(), Sums::zero(), Sums::zero()};
  std::size_t i = 0;
  for (; i + 2 <= n_lines; i += 2) {
#pragma GCC unroll 2
    for (std::size_t k = 0; k < 2; ++k) {
      Nibbles const line = Nibbles::load(codes + (i + k) * 64);
      ask(ahead, i + k);
      sums[2 * k].add(line.low, Quad::load(query + (i + k) * 8));
      sums[2 * k + 1].add(line.high, Quad::load(query + (i + k) * 8 + 4));
    }
  }
  if (i < n_lines) {
    Nibbles const line = Nibbles::load(codes + i * 64);
    ask(ahead, i);
    sums[0].add(line.low, Quad::load(query + i * 8));
    sums[1].add(line.high, Quad::load(query + i * 8 + 4));
  }
  sums[0].join(sums[1]);
  sums[2].join(sums[3]);
  sums[0].join(sums[2]);
  sums[0].centre(offset);
  *out = sums[0];
}

inline std::uint32_t find_nibble_rows(FirstPassRows const& rows, std::size_t dim,
                                      FirstPassQueries const& queries, FirstPassPrefetch ahead,
                                      FirstPassSurvivors& hits) {
  std::size_t const n_lines = (dim + 7) / 8;
  Sums sums[kFirstPassBlocks * kWidth];
  for (int b = 0; b < rows.n_blocks; ++b) {
    std::uint8_t const* const codes = rows.codes + static_cast<std::size_t>(b) * n_lines * 64;
    if (queries.n == 1) {
      nibble_dots_of_one(codes, queries.codes, queries.offsets[0], n_lines, ahead,
                         sums + b * kWidth);
      continue;
    }
    for (int q = 0; q < queries.n; q += kAtOnce)
      nibble_dots<kAtOnce>(codes, queries.codes + q * 4, queries.offsets + q, n_lines, ahead,
                           sums + b * kWidth + q);
  }
  return rows.n_blocks == 2 ? compare<2>(rows, queries, sums, hits)
                            : compare<1>(rows, queries, sums, hits);
}

constexpr std::size_t whole_lines(std::size_t dim) {
  return (dim + 7) / 8 * 8;
}

inline std::size_t nibble_panel_bytes(int n, std::size_t dim) {
  return panel_bytes(n, whole_lines(dim));
}

// What a query has beyond its elements is 0, whatever the rows have there.
inline void pack_for_nibbles(std::int8_t const* const* codes, int n, std::size_t dim,
                             std::uint8_t* panel) {
  std::size_t const n_bytes = nibble_panel_bytes(n, dim);
  for (std::size_t i = panel_bytes(n, dim); i < n_bytes; ++i) panel[i] = 0;
  pack(codes, n, dim, panel);
}

inline FirstPassKernels make_nibble_pass_kernels(char const* name) {
  return {name,
          kWidth,
          -15,
          nibble_panel_bytes,
          pack_for_nibbles,
          find_nibble_rows,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          [] {},
          [] {}};
}
