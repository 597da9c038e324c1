// A matrix of another library that lies on a device, as it lies there: for host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"

namespace hyrecall {

enum class GuestType : std::int32_t { kFloat32, kFloat16, kBFloat16, kFloat64 };

struct GuestTensor {
  void const* data;
  std::int64_t row_stride;     // in elements; negative and 0 too
  std::int64_t column_stride;  // likewise
  std::uint32_t n_rows;
  std::uint32_t dim;
  GuestType type;
};

// What one row is worth as a query.
struct GuestReading {
  double value;          // its norm, or its first value that is no finite float32
  std::uint32_t column;  // where that stands; dim: every value is one
};

// An element as it was given; exact.
HYRECALL_HD inline double guest_value(GuestTensor const& tensor, std::uint32_t row,
                                      std::uint32_t column) {
  std::int64_t const at = row * tensor.row_stride + column * tensor.column_stride;
  if (tensor.type == GuestType::kFloat64) return static_cast<double const*>(tensor.data)[at];
  if (tensor.type == GuestType::kFloat32) return static_cast<float const*>(tensor.data)[at];
  std::uint16_t const bits = static_cast<std::uint16_t const*>(tensor.data)[at];
  if (tensor.type == GuestType::kBFloat16) return bfloat16_value(bits);
  if ((bits & 0x7c00) != 0x7c00) return float16_value(bits);
  // The same infinity or NaN in bfloat16, whose exponent is as many ones.
  auto const sign = static_cast<std::uint16_t>(bits & 0x8000);
  auto const fraction = static_cast<std::uint16_t>((bits & 0x03ff) != 0 ? 0x40 : 0);
  return bfloat16_value(static_cast<std::uint16_t>(sign | 0x7f80 | fraction));
}

// What does not fit float32 becomes an infinity.
HYRECALL_HD inline bool is_finite_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits >> 23 & 0xff) != 0xff;
}

}  // namespace hyrecall
