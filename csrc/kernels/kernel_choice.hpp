// Which of its compiled scans a device may run, as the host tells it.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

#include "kernels/int8_bound.hpp"

namespace hyrecall {

// A compiled scan: what it reads, how many queries its panels hold, and for which devices it is
// made.
struct Scan {
  FrontPlane plane;
  std::uint32_t width;  // a power of 2 from 8 to 1,024
  bool is_generic;      // for any device; otherwise for sm_90a alone
  friend auto operator<=>(Scan const&, Scan const&) = default;
};

// A device made for sm_90a runs the scans of sm_90a that are not excluded; where none is left for a
// plane, or with generic_only, the generic ones.
struct KernelChoice {
  std::uint64_t excluded = 0;  // a bit a scan
  std::uint32_t generic_only = 0;
  friend auto operator<=>(KernelChoice const&, KernelChoice const&) = default;

  static std::uint64_t bit(Scan const& scan) {
    auto const place = static_cast<unsigned>(std::countr_zero(scan.width)) - 3;
    auto const plane = static_cast<unsigned>(scan.plane);
    return std::uint64_t{1} << ((2 * plane + (scan.is_generic ? 1 : 0)) * 8 + place);
  }
  bool allows(Scan const& scan) const { return (excluded & bit(scan)) == 0; }
};

}  // namespace hyrecall
