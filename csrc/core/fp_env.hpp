// Sets the rounding mode and denormals, on which scores depend. Other libraries in the process,
// such as torch, change both.
#pragma once

#include <cfenv>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace hyrecall {

// While it lives: round to nearest, keep denormals. Its destructor restores the caller's mode.
// Threads inherit the mode of the thread that starts them, so every native entry and every pool
// thread holds one.
class FpEnvGuard {
 public:
  FpEnvGuard() {
    std::fegetenv(&saved_);
    std::fesetround(FE_TONEAREST);
#if defined(__SSE2__)
    // FTZ is bit 15, DAZ bit 6; fegetenv saved the rest.
    _mm_setcsr(_mm_getcsr() & ~0x8040U);
#elif defined(__aarch64__)
    // FPCR, which fegetenv saved too: FIZ, AH and NEP are bits 0 to 2, FZ16 is bit 19, FZ bit 24,
    // DN (default NaN) bit 25, AHP (half precision without infinities) bit 26.
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    mode &= ~std::uint64_t{0x7080007};
    asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");
#endif
  }
  ~FpEnvGuard() { std::fesetenv(&saved_); }
  FpEnvGuard(FpEnvGuard const&) = delete;
  FpEnvGuard& operator=(FpEnvGuard const&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace hyrecall
