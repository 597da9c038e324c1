// The canonical dot product, one copy per instruction set, chosen once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Vnni, kAmx };

// scores[i] = canonical dot of the query and row i, for n_rows rows of dim elements, back to back.
// query: float32, padded with +0 to a multiple of 32; rows: the storage type, not padded.
struct DotKernels {
  Isa isa;
  char const* name;
  void (*float32)(float const* query, float const* rows, std::size_t n_rows, std::size_t dim,
                  float* scores);
  void (*float16)(float const* query, std::uint16_t const* rows, std::size_t n_rows,
                  std::size_t dim, float* scores);
  void (*bfloat16)(float const* query, std::uint16_t const* rows, std::size_t n_rows,
                   std::size_t dim, float* scores);
};

DotKernels scalar_dot_kernels();
DotKernels avx2_dot_kernels();
DotKernels avx512_dot_kernels();

// The best set this CPU has, or the one HYRECALL_ISA=scalar|avx2|avx512|avx512vnni|amx names (an
// error if the CPU lacks it).
DotKernels const& dot_kernels();

}  // namespace hyrecall::cpu
