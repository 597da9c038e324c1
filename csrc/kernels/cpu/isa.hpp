// Which instruction sets there are, and which one is in use.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/front.hpp"

namespace hyrecall::cpu {

// Every copy of the first pass that this CPU and system can run, the plainest first: for tests.
// Asks the system for AMX where the CPU has it.
std::vector<FrontKernels> found_front_kernels();

// The set to use, by name; "": the best. For the start of the process, before any kernel is used;
// a set that this CPU lacks throws when the first kernel is asked for.
void force_isa(std::string name);

}  // namespace hyrecall::cpu
