/* What this machine can do in int8: limits.py compiles and calls it. */
#include <time.h>

#if defined(__x86_64__)

enum {
  kProducts = 64 * 2, /* operations of one instruction */
  kChains = 24,       /* more than latency x ports, and registers are left for operands */
  kSteps = 1024
};

/* Registers by name, since compilers spill so many accumulators. What they hold does not matter. */
__attribute__((target("avx512f"), noinline)) static void multiply(void) {
  for (int step = 0; step < kSteps; ++step) {
    __asm__ volatile(
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

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* int8 operations a second of one core by AVX-512 VNNI, a product and a sum being two, measured for
   so long; 0 where the CPU has no such instructions. */
double int8_rate(double seconds) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vnni")) return 0.0;
  multiply(); /* wakes the wide units */
  double const begin = now();
  double took = 0.0;
  double calls = 0.0;
  do {
    multiply();
    calls += 1.0;
    took = now() - begin;
  } while (took < seconds);
  return calls * kSteps * kChains * kProducts / took;
#else
  (void)now;
  (void)seconds;
  return 0.0;
#endif
}
