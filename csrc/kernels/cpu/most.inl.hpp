// What:   the greatest reach of a document's rows with each query, and which rows reach a cut: the
//         first pass of an arm whose documents have several vectors.
// In/Out: see first_pass.hpp.
// Cost:   a load, two additions and two maxima for 16 rows of a query; one reduction a query and
//         document. Rows that reach a cut: four comparisons for 32 rows of a query.
// Oracle: tests/native/test_first_pass_kernels.cpp.
//
// Included once by each first_pass_<isa>.cpp inside its own and an anonymous namespace. Vectors of
// a compiler's own, which it splits into those of the set: plain loops stay scalar in GCC 12.

typedef float Eight __attribute__((vector_size(8 * sizeof(float))));
constexpr std::size_t kEights = kInt8BlockRows / 8;
static_assert(kEights == 2);

inline void raise(Eight& to, Eight const& by) {
  to = by > to ? by : to;
}

inline void load(Eight& to, float const* from) {  // g++ warns of a vector that is returned
  __builtin_memcpy(&to, from, sizeof to);
}

inline void raise_most(float const (*reach)[kReachRows], int n, std::size_t begin, std::size_t end,
                       float (*most)[kInt8BlockRows]) {
  float left_out[kReachRows];  // 0, or -inf: no row of the document
  for (std::size_t i = 0; i < kReachRows; ++i)
    left_out[i] = i >= begin && i < end ? 0.0f : -__builtin_inff();
  Eight skip[kFirstPassBlocks * kEights];
  __builtin_memcpy(skip, left_out, sizeof skip);
  for (int q = 0; q < n; ++q) {
    for (std::size_t half = 0; half < kEights; ++half) {
      Eight to;
      load(to, most[q] + half * 8);
      for (std::size_t b = 0; b < kFirstPassBlocks; ++b) {
        std::size_t const at = b * kEights + half;
        Eight rows;
        load(rows, reach[q] + at * 8);
        raise(to, rows + skip[at]);
      }
      __builtin_memcpy(most[q] + half * 8, &to, sizeof to);
    }
  }
}

inline void fold_most(float const (*most)[kInt8BlockRows], int n, float* greatest) {
  for (int q = 0; q < n; ++q) {
    Eight v;
    Eight other;
    load(v, most[q]);
    load(other, most[q] + 8);
    raise(v, other);
    raise(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    raise(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    greatest[q] = v[0] > v[1] ? v[0] : v[1];
  }
}

inline void find_reaching(float const (*reach)[kReachRows], int n, std::size_t begin,
                          std::size_t end, float const* cuts, std::uint32_t* rows) {
  typedef std::int32_t Bits __attribute__((vector_size(8 * sizeof(std::int32_t))));
  std::uint32_t own[kReachRows];  // the bit of a row of the document; 0 of another
  for (std::size_t i = 0; i < kReachRows; ++i)
    own[i] = i >= begin && i < end ? std::uint32_t{1} << i : 0;
  Bits bits[kFirstPassBlocks * kEights];
  __builtin_memcpy(bits, own, sizeof bits);
  for (int q = 0; q < n; ++q) {
    Eight const cut = cuts[q] - Eight{};
    Bits found = {};
    for (std::size_t at = 0; at < kFirstPassBlocks * kEights; ++at) {
      Eight rows_8;
      load(rows_8, reach[q] + at * 8);
      found |= (rows_8 >= cut) & bits[at];
    }
    found |= __builtin_shufflevector(found, found, 4, 5, 6, 7, 0, 1, 2, 3);
    found |= __builtin_shufflevector(found, found, 2, 3, 0, 1, 6, 7, 4, 5);
    rows[q] = static_cast<std::uint32_t>(found[0] | found[1]);
  }
}
