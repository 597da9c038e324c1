// Scores depend on the rounding mode and on denormals; hosts (torch among them) change both behind
// our back.
#pragma once

#include <cfenv>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace hyrecall {

// Round to nearest, denormals kept, while it lives; the caller's mode comes back after. Threads
// inherit their maker's mode, so every native entry and every pool thread holds one.
class FpEnvGuard {
 public:
  FpEnvGuard() {
    std::fegetenv(&saved_);
    std::fesetround(FE_TONEAREST);
#if defined(__SSE2__)
    // FTZ is bit 15, DAZ bit 6; fegetenv saved the rest.
    _mm_setcsr(_mm_getcsr() & ~0x8040U);
#elif defined(__aarch64__)
    // FPCR, which fegetenv saved too: FZ is bit 24, FZ16 bit 19, DN (default NaN) bit 25.
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    mode &= ~(std::uint64_t{1} << 24 | std::uint64_t{1} << 19 | std::uint64_t{1} << 25);
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
