// Scores depend on the rounding mode and on denormals; hosts (torch among them) change both behind
// our back.
#pragma once

#include <cfenv>
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
#endif
  }
  ~FpEnvGuard() { std::fesetenv(&saved_); }
  FpEnvGuard(FpEnvGuard const&) = delete;
  FpEnvGuard& operator=(FpEnvGuard const&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace hyrecall
