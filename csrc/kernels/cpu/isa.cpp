// Chooses the instruction set once.
#include <cstdlib>
#include <string>

#include "core/error.hpp"
#include "kernels/cpu/dot.hpp"

namespace hyrecall::cpu {
namespace {

DotKernels choose() {
#if defined(__x86_64__)
  bool const has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  bool const has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  bool const has_avx2 = false;
  bool const has_avx512 = false;
#endif
  char const* const named = std::getenv("HYRECALL_ISA");
  std::string const wish = named != nullptr ? named : "";
  if (wish == "scalar") return scalar_dot_kernels();
#if defined(__x86_64__)
  if (wish == "avx2" && has_avx2) return avx2_dot_kernels();
  if (wish == "avx512" && has_avx512) return avx512_dot_kernels();
#endif
  if (!wish.empty()) {
    throw Error(ErrorCode::kOption, "HYRECALL_ISA",
                "expected an instruction set of this CPU (scalar" +
                    std::string(has_avx2 ? ", avx2" : "") + (has_avx512 ? ", avx512" : "") +
                    "), got " + wish);
  }
#if defined(__x86_64__)
  if (has_avx512) return avx512_dot_kernels();
  if (has_avx2) return avx2_dot_kernels();
#endif
  return scalar_dot_kernels();
}

}  // namespace

DotKernels const& dot_kernels() {
  static DotKernels const chosen = choose();
  return chosen;
}

}  // namespace hyrecall::cpu
