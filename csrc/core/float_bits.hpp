// Rounding to float32 in a given direction, and 16-bit floats, for host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/formulas.hpp"

namespace hyrecall {

// The least float32 >= value.
HYRECALL_HD inline float float_up(double value) {
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) < value) {
    std::uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    bits = (bits >> 31) != 0 ? bits - 1 : bits + 1;
    std::memcpy(&rounded, &bits, sizeof rounded);
  }
  return rounded;
}

// The greatest float32 <= value.
HYRECALL_HD inline float float_down(double value) {
  return -float_up(-value);
}

// Bits of the nearest value, ties to even, of a type with so many fraction bits and this exponent
// of its least normal number. |value| must not pass the type's greatest.
HYRECALL_HD inline std::uint16_t narrow(double value, int fraction_bits, int min_exponent) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  auto const sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  int const exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  bool const is_normal = exponent >= min_exponent;
  // A subnormal's last bit has a fixed value: the fraction loses a bit for each lower exponent.
  int const drop = 52 - fraction_bits + (is_normal ? 0 : min_exponent - exponent);
  if (drop > 53) return sign;  // less than half of the least subnormal; zero too
  std::uint64_t const significand = (bits & 0x000fffffffffffffULL) | 0x0010000000000000ULL;
  std::uint64_t const half = std::uint64_t{1} << (drop - 1);
  std::uint64_t const rest = significand & (2 * half - 1);
  std::uint64_t kept = significand >> drop;
  if (rest > half || (rest == half && (kept & 1) != 0)) kept += 1;
  // A carry out of the fraction correctly increases the exponent.
  auto const above = static_cast<std::uint64_t>(is_normal ? exponent - min_exponent : 0);
  return static_cast<std::uint16_t>(sign | (kept + (above << fraction_bits)));
}

HYRECALL_HD inline std::uint16_t float16_bits(double value) {
  return narrow(value, 10, -14);
}
HYRECALL_HD inline std::uint16_t bfloat16_bits(double value) {
  return narrow(value, 7, -126);
}

// The value of 16 bits that are finite; exact.
HYRECALL_HD inline float float16_value(std::uint16_t bits) {
  std::uint32_t const exponent = bits >> 10 & 0x1f;
  std::uint32_t const fraction = bits & 0x3ff;
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  if (exponent != 0) {
    std::uint32_t const wide = (exponent + 112) << 23 | fraction << 13;
    std::memcpy(&magnitude, &wide, sizeof magnitude);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
HYRECALL_HD inline float bfloat16_value(std::uint16_t bits) {
  std::uint32_t const wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace hyrecall
