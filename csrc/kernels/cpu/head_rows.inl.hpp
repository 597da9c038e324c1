// What:   heads of rows at a build, see HeadKernels.
// Cost:   products: bound by fma. A load of 16 directions serves kRowsAtOnce rows, a number of a
//         row kGroupsAtOnce groups of directions; the directions pass through the second cache once
//         for the rows of a call. The others are loops that the compiler turns into vectors: their
//         sums lie in 32 lanes.
// Oracle: tests/native/test_head_rows.cpp.
//
// Included once by each head_rows_<isa>.cpp inside its own and an anonymous namespace, after it has
// defined kGroupsAtOnce and Sums (of 16 directions): nothing here may be shared between instruction
// sets.

constexpr std::size_t kWide = 32;  // kLanes
constexpr std::size_t kRowsAtOnce = 4;

template <int kRows, int kGroups>
void products_of(float const* rows, std::size_t dim, std::size_t n_piece, float const* directions,
                 std::size_t out_stride, float* out) {
  Sums sums[kRows][kGroups];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) sums[r][g] = Sums::zero();
  }
  for (std::size_t first = 0; first < dim; first += n_piece) {
    std::size_t const end = first + n_piece < dim ? first + n_piece : dim;
    Sums piece[kRows][kGroups];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) piece[r][g] = Sums::zero();
    }
    for (std::size_t k = first; k < end; ++k) {
      Sums of[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g)
        of[g] = Sums::load(directions + (static_cast<std::size_t>(g) * dim + k) * kHeadGroup);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        float const value = rows[static_cast<std::size_t>(r) * dim + k];
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) piece[r][g].add_product(of[g], value);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) sums[r][g].add(piece[r][g]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g)
      sums[r][g].store(out + static_cast<std::size_t>(r) * out_stride +
                       static_cast<std::size_t>(g) * kHeadGroup);
  }
}

template <int kGroups>
void meet(float const* rows, std::size_t n_rows, std::size_t dim, std::size_t n_piece,
          float const* directions, std::size_t out_stride, float* out) {
  std::size_t r = 0;
  for (; r + kRowsAtOnce <= n_rows; r += kRowsAtOnce)
    products_of<kRowsAtOnce, kGroups>(rows + r * dim, dim, n_piece, directions, out_stride,
                                      out + r * out_stride);
  for (; r < n_rows; ++r)
    products_of<1, kGroups>(rows + r * dim, dim, n_piece, directions, out_stride,
                            out + r * out_stride);
}

void products(float const* rows, std::size_t n_rows, std::size_t dim, std::size_t n_piece,
              float const* directions, std::size_t n_groups, float* out) {
  std::size_t const stride = n_groups * kHeadGroup;
  std::size_t const of_group = dim * kHeadGroup;
  std::size_t g = 0;
  for (; g + kGroupsAtOnce <= n_groups; g += kGroupsAtOnce)
    meet<kGroupsAtOnce>(rows, n_rows, dim, n_piece, directions + g * of_group, stride,
                        out + g * kHeadGroup);
  for (; g < n_groups; ++g)
    meet<1>(rows, n_rows, dim, n_piece, directions + g * of_group, stride, out + g * kHeadGroup);
}

void scale(float const* x, std::size_t n, float factor, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

inline double folded(double* lanes) {
  for (std::size_t width = kWide / 2; width >= 1; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lanes[j] = lanes[j] + lanes[j + width];
  }
  return lanes[0];
}

// Calls of(first, n_lanes) for each 32 elements; n_lanes is a constant but at the end.
template <typename Of>
inline void by_lanes(std::size_t n, Of&& of) {
  std::size_t first = 0;
  for (; first + kWide <= n; first += kWide) of(first, kWide);
  if (first < n) of(first, n - first);
}

double squares(float const* x, std::size_t n) {
  double lanes[kWide] = {};
  by_lanes(n, [&](std::size_t first, std::size_t n_lanes) __attribute__((always_inline)) {
    for (std::size_t lane = 0; lane < n_lanes; ++lane) {
      double const value = x[first + lane];
      lanes[lane] = lanes[lane] + value * value;
    }
  });
  return folded(lanes);
}

NibbleSums nibbles(float const* x, std::size_t n, float per_step, std::int8_t* codes) {
  double along[kWide] = {};
  std::int32_t lengths[kWide] = {};
  by_lanes(n, [&](std::size_t first, std::size_t n_lanes) __attribute__((always_inline)) {
    float values[kWide] = {};
    std::int32_t found[kWide];
    for (std::size_t lane = 0; lane < n_lanes; ++lane) values[lane] = x[first + lane];
    for (std::size_t lane = 0; lane < kWide; ++lane) {
      float const steps = __builtin_fabsf(values[lane]) * per_step;
      float const within = steps < 7.5f ? steps : 7.5f;  // NaN too
      found[lane] = 2 * static_cast<std::int32_t>(within) + 1;
    }
    for (std::size_t lane = 0; lane < n_lanes; ++lane) lengths[lane] += found[lane] * found[lane];
    for (std::size_t lane = 0; lane < kWide; ++lane) {
      double const part = static_cast<double>(__builtin_fabsf(values[lane])) * found[lane];
      along[lane] = along[lane] + part;
    }
    for (std::size_t lane = 0; lane < kWide; ++lane) {
      std::int32_t bits;
      __builtin_memcpy(&bits, values + lane, sizeof bits);
      std::int32_t const sign = bits >> 31;  // 0 or -1
      found[lane] = (found[lane] ^ sign) - sign;
    }
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      codes[first + lane] = static_cast<std::int8_t>(found[lane]);
  });
  std::int64_t length = 0;
  for (std::int32_t const one : lengths) length += one;
  return {folded(along), length};
}

double left(float const* x, std::size_t n, double to_unit, float scale_of_codes,
            std::int8_t const* codes) {
  double const wide_scale = scale_of_codes;
  double lanes[kWide] = {};
  by_lanes(n, [&](std::size_t first, std::size_t n_lanes) __attribute__((always_inline)) {
    for (std::size_t lane = 0; lane < n_lanes; ++lane) {
      double const rest = x[first + lane] * to_unit - wide_scale * codes[first + lane];
      lanes[lane] = lanes[lane] + rest * rest;
    }
  });
  return folded(lanes);
}

HeadKernels make_head_kernels(char const* name) {
  return {name, products, scale, squares, nibbles, left};
}
