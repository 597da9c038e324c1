// Chooses the instruction set once.
#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "core/error.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall::cpu {
namespace {

#if defined(__x86_64__)
// clang before 17 does not know "f16c" in __builtin_cpu_supports. Where the system grants AVX, it
// keeps the registers of these instructions too.
bool has_f16c() {
  unsigned eax = 1;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  asm("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (ecx >> 29 & 1) != 0;
}

bool has_amx() {
#if defined(__linux__)
  unsigned eax = 7;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  asm("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (edx >> 24 & 1) != 0 && (edx >> 25 & 1) != 0;  // amx-tile, amx-int8
#else
  return false;
#endif
}

// AMX keeps 8 KiB a thread, which the system must grant, once for the process and for good:
// arch_prctl(ARCH_REQ_XCOMP_PERM, tile data).
bool may_use_amx() {
#if defined(__linux__)
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
  return false;
#endif
}

// On a second block of queries the tiles are full enough.
constexpr std::size_t kManyForAmx = 17;
#elif defined(__aarch64__)
bool has_sdot() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
  return true;  // each Mac since the first, M1
#else
  return false;
#endif
}
#endif

// From the plainest to the best. AMX is there if the processor has it; see is_granted.
std::vector<Kernels> known_kernels() {
  std::vector<Kernels> known{{"scalar", scalar_dot_kernels(), scalar_score_kernels(),
                              scalar_first_pass_kernels(), scalar_nibble_pass_kernels(),
                              scalar_head_kernels()}};
#if defined(__x86_64__)
  bool const has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  bool const has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool const has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
  if (has_avx2)
    known.push_back({"avx2", avx2_dot_kernels(), avx2_score_kernels(), avx2_first_pass_kernels(),
                     avx2_nibble_pass_kernels(), avx2_head_kernels()});
  if (has_avx512) {
    known.push_back({"avx512", avx512_dot_kernels(), avx512_score_kernels(),
                     avx512_first_pass_kernels(), avx512_nibble_pass_kernels(),
                     avx512_head_kernels()});
  }
  // VNNI and AMX say nothing of floats.
  if (has_vnni) {
    known.push_back({"avx512vnni", avx512_dot_kernels(), avx512_score_kernels(),
                     avx512vnni_first_pass_kernels(), avx512vnni_nibble_pass_kernels(),
                     avx512_head_kernels()});
  }
  if (has_vnni && has_amx()) {
    known.push_back({"amx", avx512_dot_kernels(), avx512_score_kernels(),
                     avx512vnni_first_pass_kernels(), avx512vnni_nibble_pass_kernels(),
                     avx512_head_kernels(), kManyForAmx, amx_first_pass_kernels(), true});
  }
#elif defined(__aarch64__)
  known.push_back({"neon", neon_dot_kernels(), neon_score_kernels(), neon_first_pass_kernels(),
                   neon_nibble_pass_kernels(), neon_head_kernels()});
  if (has_sdot()) {
    known.push_back({"neondot", neon_dot_kernels(), neon_score_kernels(),
                     neondot_first_pass_kernels(), neondot_nibble_pass_kernels(),
                     neon_head_kernels()});
  }
#endif
  return known;
}

// Asks the system where it must be asked; only for the set that is about to be used.
bool is_granted([[maybe_unused]] Kernels const& one) {
#if defined(__x86_64__)
  return !one.needs_grant || may_use_amx();
#else
  return true;
#endif
}

std::string& forced_isa() {
  static std::string name;
  return name;
}

Kernels choose() {
  std::vector<Kernels> const found = known_kernels();
  std::string const& named = forced_isa();
  for (auto one = found.rbegin(); named.empty() && one != found.rend(); ++one) {
    if (is_granted(*one)) return *one;
  }
  std::string names;
  for (Kernels const& one : found) {
    if (named == one.name && is_granted(one)) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  throw Error(ErrorCode::kOption, "HYRECALL_ISA",
              "expected an instruction set of this CPU (" + names + "), got " + named);
}

}  // namespace

Kernels const& kernels() {
  static Kernels const chosen = choose();
  return chosen;
}

std::vector<Kernels> found_kernels() {
  std::vector<Kernels> found = known_kernels();
  std::erase_if(found, [](Kernels const& one) { return !is_granted(one); });
  return found;
}

void force_isa(std::string name) {
  forced_isa() = std::move(name);
}

}  // namespace hyrecall::cpu
