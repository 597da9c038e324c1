// What:   canonical dot of one query and a block of rows: 32 lanes, lane j takes elements i = j mod
// 32 in rising
//         order by fma from +0, the tail padded with +0; lanes fold by 16, 8, 4, 2, 1. All float32.
// In/Out: see DotKernels. The engine pads the query; rows are as stored.
// Cost:   reads n_rows x dim x itemsize bytes once: bound by memory for one query. kRowsAtOnce rows
//         share each query load. Of pairs as many are computed together, and share nothing.
// Oracle: tests/oracle, the same definition with libm's fmaf.
//
// Included once by each dot_<isa>.cpp inside its own and an anonymous namespace, after it has
// defined `Lanes` and kRowsAtOnce: nothing here may be shared between instruction sets, or the
// linker keeps one copy for all.

template <typename T>
inline Lanes load_tail(T const* row, std::size_t n) {
  T padded[32] = {};
  for (std::size_t i = 0; i < n; ++i) padded[i] = row[i];
  return Lanes::load(padded);
}

template <int kRows, typename T>
inline void dot_block(float const* query, T const* rows, std::size_t dim, float* scores) {
  Lanes sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = Lanes::zero();
  std::size_t const whole = dim / 32 * 32;
  for (std::size_t i = 0; i < whole; i += 32) {
    Lanes const q = Lanes::load(query + i);
    for (int r = 0; r < kRows; ++r) sums[r].add_product(Lanes::load(rows + r * dim + i), q);
  }
  if (whole < dim) {
    Lanes const q = Lanes::load(query + whole);
    for (int r = 0; r < kRows; ++r)
      sums[r].add_product(load_tail(rows + r * dim + whole, dim - whole), q);
  }
  for (int r = 0; r < kRows; ++r) scores[r] = sums[r].fold();
}

template <typename T>
void dot_rows(float const* query, T const* rows, std::size_t n_rows, std::size_t dim,
              float* scores) {
  std::size_t row = 0;
  for (; row + kRowsAtOnce <= n_rows; row += kRowsAtOnce)
    dot_block<kRowsAtOnce>(query, rows + row * dim, dim, scores + row);
  for (; row < n_rows; ++row) dot_block<1>(query, rows + row * dim, dim, scores + row);
}

template <int kPairs, typename T>
inline void dot_pairs_block(DotPair const* pairs, std::size_t dim, float* scores) {
  Lanes sums[kPairs];
  T const* rows[kPairs];
  for (int p = 0; p < kPairs; ++p) {
    sums[p] = Lanes::zero();
    rows[p] = reinterpret_cast<T const*>(pairs[p].row);
  }
  std::size_t const whole = dim / 32 * 32;
  for (std::size_t i = 0; i < whole; i += 32) {
    for (int p = 0; p < kPairs; ++p)
      sums[p].add_product(Lanes::load(rows[p] + i), Lanes::load(pairs[p].query + i));
  }
  if (whole < dim) {
    for (int p = 0; p < kPairs; ++p)
      sums[p].add_product(load_tail(rows[p] + whole, dim - whole),
                          Lanes::load(pairs[p].query + whole));
  }
  for (int p = 0; p < kPairs; ++p) scores[p] = sums[p].fold();
}

template <typename T>
void dot_pairs(DotPair const* pairs, std::size_t n, std::size_t dim, float* scores) {
  std::size_t at = 0;
  for (; at + kRowsAtOnce <= n; at += kRowsAtOnce)
    dot_pairs_block<kRowsAtOnce, T>(pairs + at, dim, scores + at);
  for (; at < n; ++at) dot_pairs_block<1, T>(pairs + at, dim, scores + at);
}

// bfloat16 and float16 are both 16-bit patterns, so the type says which.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

inline DotKernels make_kernels() {
  return {[](float const* q, float const* rows, std::size_t n, std::size_t dim, float* out) {
            dot_rows(q, rows, n, dim, out);
          },
          [](float const* q, std::uint16_t const* rows, std::size_t n, std::size_t dim,
             float* out) { dot_rows(q, reinterpret_cast<Half const*>(rows), n, dim, out); },
          [](float const* q, std::uint16_t const* rows, std::size_t n, std::size_t dim,
             float* out) { dot_rows(q, reinterpret_cast<Brain const*>(rows), n, dim, out); },
          dot_pairs<float>,
          dot_pairs<Half>,
          dot_pairs<Brain>};
}
