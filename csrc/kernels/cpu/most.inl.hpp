// What:   the greatest reach of a document's rows with each query, and the sum of these: the first
//         pass of an arm whose documents have several vectors.
// In/Out: see first_pass.hpp.
// Cost:   a load, two additions and two maxima for 16 rows of a query; one reduction a query and
//         document.
// Oracle: tests/native/test_first_pass_kernels.cpp.
//
// Included once by each first_pass_<isa>.cpp inside its own and an anonymous namespace. Plain loops
// that compilers turn into the vectors of the set.

inline void raise_most(float const (*reach)[kReachRows], int n, std::size_t begin, std::size_t end,
                       float (*most)[kInt8BlockRows]) {
  float left_out[kReachRows];  // 0, or -inf: no row of the document
  for (std::size_t i = 0; i < kReachRows; ++i)
    left_out[i] = i >= begin && i < end ? 0.0f : -__builtin_inff();
  for (int q = 0; q < n; ++q) {
    float const* const from = reach[q];
    float* const to = most[q];
    for (std::size_t i = 0; i < kInt8BlockRows; ++i) {
      float const low = from[i] + left_out[i];
      float const high = from[i + kInt8BlockRows] + left_out[i + kInt8BlockRows];
      float const both = low > high ? low : high;
      to[i] = both > to[i] ? both : to[i];
    }
  }
}

inline double sum_most(float const (*most)[kInt8BlockRows], int n) {
  double sum = 0.0;
  for (int q = 0; q < n; ++q) {
    float folded[kInt8BlockRows];
    for (std::size_t i = 0; i < kInt8BlockRows; ++i) folded[i] = most[q][i];
    for (std::size_t half = kInt8BlockRows / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i)
        folded[i] = folded[i + half] > folded[i] ? folded[i + half] : folded[i];
    }
    sum += folded[0];
  }
  return sum;
}
