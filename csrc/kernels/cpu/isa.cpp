// Chooses the instruction set once.
#include <optional>
#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/error.hpp"
#include "kernels/cpu/dot.hpp"
#include "kernels/cpu/front.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall::cpu {
namespace {

struct Kernels {
  DotKernels dot;
  FrontKernels front;
  // For this many queries and more there may be another.
  std::size_t many = 0;
  std::optional<FrontKernels> front_of_many{};
};

#if defined(__x86_64__)
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
#endif

// From the plainest to the best. AMX is there if the processor has it; see is_granted.
std::vector<Kernels> found_kernels() {
  std::vector<Kernels> found{{scalar_dot_kernels(), scalar_front_kernels()}};
#if defined(__x86_64__)
  bool const has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  bool const has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool const has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
  if (has_avx2) found.push_back({avx2_dot_kernels(), avx2_front_kernels()});
  if (has_avx512) found.push_back({avx512_dot_kernels(), avx512_front_kernels()});
  DotKernels wide = avx512_dot_kernels();  // VNNI and AMX say nothing of floats
  wide.isa = Isa::kAvx512Vnni;
  wide.name = "avx512vnni";
  if (has_vnni) found.push_back({wide, avx512vnni_front_kernels()});
  wide.isa = Isa::kAmx;
  wide.name = "amx";
  if (has_vnni && has_amx())
    found.push_back({wide, avx512vnni_front_kernels(), kManyForAmx, amx_front_kernels()});
#endif
  return found;
}

// Asks the system where it must be asked; only for the set that is about to be used.
bool is_granted([[maybe_unused]] Kernels const& one) {
#if defined(__x86_64__)
  return one.dot.isa != Isa::kAmx || may_use_amx();
#else
  return true;
#endif
}

std::string& forced_isa() {
  static std::string name;
  return name;
}

Kernels choose() {
  std::vector<Kernels> const found = found_kernels();
  std::string const& named = forced_isa();
  for (auto one = found.rbegin(); named.empty() && one != found.rend(); ++one) {
    if (is_granted(*one)) return *one;
  }
  std::string names;
  for (Kernels const& one : found) {
    if (named == one.dot.name && is_granted(one)) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.dot.name);
  }
  throw Error(ErrorCode::kOption, "HYRECALL_ISA",
              "expected an instruction set of this CPU (" + names + "), got " + named);
}

Kernels const& kernels() {
  static Kernels const chosen = choose();
  return chosen;
}

}  // namespace

std::vector<FrontKernels> found_front_kernels() {
  std::vector<FrontKernels> out;
  for (Kernels const& one : found_kernels()) {
    if (is_granted(one)) out.push_back(one.front_of_many ? *one.front_of_many : one.front);
  }
  return out;
}

void force_isa(std::string name) {
  forced_isa() = std::move(name);
}

DotKernels const& dot_kernels() {
  return kernels().dot;
}

FrontKernels const& front_kernels(std::size_t n_queries) {
  Kernels const& all = kernels();
  return all.front_of_many && n_queries >= all.many ? *all.front_of_many : all.front;
}

}  // namespace hyrecall::cpu
