#include "kernels/cpu/int8_rate.hpp"

#include <chrono>
#include <cstdint>

namespace hyrecall::cpu {
namespace {

#if defined(__x86_64__)

constexpr int kProducts = 64 * 2;  // operations of one instruction
constexpr int kChains = 24;        // more than latency x ports, and registers are left for operands
constexpr int kSteps = 1024;

// Registers by name, since compilers spill so many accumulators. What they hold does not matter.
__attribute__((target("avx512f"), noinline)) void multiply() {
  for (int step = 0; step < kSteps; ++step) {
    asm volatile(
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t"
        "vpdpbusd %%zmm30, %%zmm31, %%zmm\\n\n\t"
        ".endr"
        :
        :
        : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",
          "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20",
          "zmm21", "zmm22", "zmm23");
  }
}

#endif

}  // namespace

double int8_rate(double seconds) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vnni")) return 0.0;
  using Clock = std::chrono::steady_clock;
  multiply();  // wakes the wide units
  std::int64_t calls = 0;
  auto const begin = Clock::now();
  double took = 0.0;
  do {
    multiply();
    ++calls;
    took = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (took < seconds);
  return static_cast<double>(calls) * kSteps * kChains * kProducts / took;
#else
  return seconds * 0.0;
#endif
}

}  // namespace hyrecall::cpu
