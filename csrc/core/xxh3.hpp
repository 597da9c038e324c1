// XXH3-64 of long inputs, by its published specification (the checksum of docs/format.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall {

inline constexpr std::size_t kXxh3Least = 241;  // shorter inputs are hashed in other ways

// XXH3-64 with seed 0 of n >= kXxh3Least bytes.
std::uint64_t xxh3_64(std::uint8_t const* bytes, std::size_t n);

}  // namespace hyrecall
