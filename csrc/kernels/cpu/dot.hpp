// The canonical dot product, one copy per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

// A query and a row, both as below.
struct DotPair {
  float const* query;
  std::uint8_t const* row;
};
// scores[i] = canonical dot of pair i.
using DotPairs = void (*)(DotPair const* pairs, std::size_t n, std::size_t dim, float* scores);

// scores[i] = canonical dot of the query and row i, for n_rows rows of dim elements, back to back.
// query: float32, padded with +0 to a multiple of 32; rows: the storage type, not padded.
struct DotKernels {
  void (*float32)(float const* query, float const* rows, std::size_t n_rows, std::size_t dim,
                  float* scores);
  void (*float16)(float const* query, std::uint16_t const* rows, std::size_t n_rows,
                  std::size_t dim, float* scores);
  void (*bfloat16)(float const* query, std::uint16_t const* rows, std::size_t n_rows,
                   std::size_t dim, float* scores);
  DotPairs float32_pairs, float16_pairs, bfloat16_pairs;
};

DotKernels scalar_dot_kernels();
DotKernels avx2_dot_kernels();
DotKernels avx512_dot_kernels();
DotKernels neon_dot_kernels();

}  // namespace hyrecall::cpu
