// How rows and filters of a dense column are laid out, for host and device.
#pragma once

#include <cstdint>

namespace hyrecall {

enum class RowType : std::int32_t { kFloat32, kFloat16, kBFloat16 };

inline std::uint32_t item_bytes(RowType type) {
  return type == RowType::kFloat32 ? 4 : 2;
}

// Rows of a plane begin at multiples of 16 bytes, as asynchronous copies want them.
inline std::uint32_t plane_pitch(std::uint32_t row_bytes) {
  return (row_bytes + 15) / 16 * 16;
}

// Rows of a reply that a device sorts, in shared memory; a longer one leaves it unsorted.
inline constexpr std::uint32_t kMostSorted = 4096;

// A filter on one segment: a program of tests.
struct SegmentFilter {
  std::uint32_t test_begin;
  std::uint32_t n_tests;
};

}  // namespace hyrecall
