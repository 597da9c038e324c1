// The canonical dot without vector instructions: the reading of the definition that every other
// copy must equal.
#include <cmath>
#include <cstring>

#include "kernels/cpu/dot.hpp"

namespace hyrecall::cpu {
namespace scalar {
namespace {

constexpr int kRowsAtOnce = 4;

struct Half;
struct Brain;

inline float widen_half(std::uint16_t bits) {
  std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  std::uint32_t const exponent = (bits >> 10) & 0x1f;
  std::uint32_t const fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction x 2^-24, exact in float32
    float const magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  std::uint32_t const wide =
      sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline float widen_brain(std::uint16_t bits) {
  std::uint32_t const wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

struct Lanes {
  float lane[32];

  static Lanes zero() { return {}; }
  template <typename T>
  static Lanes load(T const* from) {
    Lanes out;
    for (int j = 0; j < 32; ++j) out.lane[j] = widen(from[j]);
    return out;
  }
  void add_product(Lanes const& a, Lanes const& b) {
    for (int j = 0; j < 32; ++j) lane[j] = std::fmaf(a.lane[j], b.lane[j], lane[j]);
  }
  float fold() {
    for (int width = 16; width >= 1; width /= 2) {
      for (int j = 0; j < width; ++j) lane[j] = lane[j] + lane[j + width];
    }
    return lane[0];
  }

  static float widen(float value) { return value; }
  template <typename T>
  static float widen(T value) {
    if constexpr (std::is_same_v<T, Half>) {
      return widen_half(value.bits);
    } else {
      return widen_brain(value.bits);
    }
  }
};

#include "kernels/cpu/dot.inl.hpp"

}  // namespace
}  // namespace scalar

DotKernels scalar_dot_kernels() {
  return scalar::make_kernels();
}

}  // namespace hyrecall::cpu
