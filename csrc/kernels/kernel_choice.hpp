// Which variants of the scanning kernel a device may run, as the host tells it.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

#include "kernels/int8_bound.hpp"

namespace hyrecall {

// A variant of the scanning kernel: what it reads, how many queries it takes together, and for
// which devices it is compiled.
struct ScanVariant {
  FirstPassPlane plane;
  std::uint32_t width;  // a power of 2 from 8 to 1,024
  bool is_generic;      // for any device; otherwise for sm_90a alone
  friend auto operator<=>(ScanVariant const&, ScanVariant const&) = default;
};

// Variants that a device runs on a plane, at most.
inline constexpr int kMaxScans = 3;

// A device made for sm_90a runs the scans of sm_90a that are not excluded; where none is left for a
// plane, or with generic_only, the generic ones.
struct KernelChoice {
  std::uint64_t excluded = 0;  // a bit a scan
  std::uint32_t generic_only = 0;
  friend auto operator<=>(KernelChoice const&, KernelChoice const&) = default;

  static std::uint64_t bit(ScanVariant const& scan) {
    auto const place = static_cast<unsigned>(std::countr_zero(scan.width)) - 3;
    auto const plane = static_cast<unsigned>(scan.plane);
    return std::uint64_t{1} << ((2 * plane + (scan.is_generic ? 1 : 0)) * 8 + place);
  }
  bool allows(ScanVariant const& scan) const { return (excluded & bit(scan)) == 0; }
};

}  // namespace hyrecall
