// What the machine can do, for benchmarks to hold the dense scan against.
#pragma once

namespace hyrecall::cpu {

// int8 operations a second of one core by AVX-512 VNNI, a product and a sum being two, measured for
// so long; 0 where the CPU has no such instructions.
double int8_rate(double seconds);

}  // namespace hyrecall::cpu
