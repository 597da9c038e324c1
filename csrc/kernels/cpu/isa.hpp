// Which instruction sets there are, which one is in use, and its kernels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/dot.hpp"
#include "kernels/cpu/first_pass.hpp"
#include "kernels/cpu/head_rows.hpp"
#include "kernels/cpu/scores.hpp"

namespace hyrecall::cpu {

// All kernels of one instruction set.
struct Kernels {
  char const* name;
  DotKernels dot;
  ScoreKernels scores;
  FirstPassKernels first_pass;
  FirstPassKernels nibble_pass;
  HeadKernels heads;
  // Where a set has another first pass for this many queries and more.
  std::size_t many = 0;
  std::optional<FirstPassKernels> first_pass_of_many{};
  bool needs_grant = false;  // the system must be asked before its first use

  FirstPassKernels const& first_pass_for(std::size_t n_queries) const {
    return first_pass_of_many && n_queries >= many ? *first_pass_of_many : first_pass;
  }
};

// Those of the best set that this CPU has, or of the one that force_isa() named. Chosen once.
Kernels const& kernels();

// Every set that this CPU and system can run, the plainest first: for tests. Asks the system for
// AMX where the CPU has it.
std::vector<Kernels> found_kernels();

// The set to use, by name: scalar; on x86-64 avx2, avx512, avx512vnni, amx; on aarch64 neon,
// neondot; "": the best. For the start of the process, before any kernel is used; a set that this
// CPU lacks throws when the first kernel is asked for.
void force_isa(std::string name);

}  // namespace hyrecall::cpu
