#include "kernels/cpu/scores.hpp"

namespace hyrecall::cpu {

ScoreKernels const& score_kernels() {
  static ScoreKernels const chosen = [] {
#if defined(__x86_64__)
    if (dot_kernels().isa == Isa::kAvx2) return avx2_score_kernels();
    if (dot_kernels().isa != Isa::kScalar) return avx512_score_kernels();
#endif
    return scalar_score_kernels();
  }();
  return chosen;
}

}  // namespace hyrecall::cpu
