// A matrix in shared memory as wgmma wants it described: one copy, which the emulated machine reads
// by the manual's words (PTX ISA, "Matrix Descriptor Format").
#pragma once

#include <cstdint>

#include "core/formulas.hpp"

namespace hyrecall::cuda {

// Rows of 128 bytes, 1,024-byte aligned, whose 16-byte pieces are swapped as place_in_block says:
// the 128-byte swizzle, eight rows 1,024 bytes apart. Moves by 32 bytes of a row as its address
// does. address: in shared memory.
HYRECALL_HD inline std::uint64_t matrix_descriptor(std::uint64_t address) {
  return (address & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}

}  // namespace hyrecall::cuda
