// How rows and filters of a dense column are laid out, for host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/formulas.hpp"
#include "core/types.hpp"

namespace hyrecall {

enum class RowType : std::int32_t { kFloat32, kFloat16, kBFloat16 };

inline std::uint32_t item_bytes(RowType type) {
  return type == RowType::kFloat32 ? 4 : 2;
}

// Whether a vector may have this norm; 0 means that it is missing.
HYRECALL_HD constexpr bool is_norm(double norm) {
  return norm == 0.0 || (norm >= kMinNorm && norm <= kMaxNorm);
}

// A *tiled* plane lies in memory as the matrix units want it in shared memory: 128 bytes of 128
// rows are one block, copied whole; in it the 16-byte pieces of row r change places by r mod 8, so
// that the same piece of eight rows lies in eight different banks. What is past the end is 0.
inline constexpr std::uint32_t kChunkBytes = 128;
inline constexpr std::uint32_t kPieceBytes = 16;
inline constexpr std::uint32_t kPieces = kChunkBytes / kPieceBytes;

HYRECALL_HD constexpr std::uint32_t chunks_of(std::uint32_t row_bytes) {
  return (row_bytes + kChunkBytes - 1) / kChunkBytes;
}

// Where a byte of a row lies in its block.
HYRECALL_HD constexpr std::uint32_t place_in_block(std::uint32_t row, std::uint32_t byte) {
  return row * kChunkBytes + ((byte / kPieceBytes) ^ (row % 8)) * kPieceBytes + byte % kPieceBytes;
}

// Where a byte of a row lies in a plane of n_chunks chunks a row.
HYRECALL_HD constexpr std::size_t place_in_plane(std::uint32_t row, std::uint32_t byte,
                                                 std::uint32_t n_chunks) {
  std::size_t const block = std::size_t{row / kTileRows} * n_chunks + byte / kChunkBytes;
  return block * (kTileRows * kChunkBytes) + place_in_block(row % kTileRows, byte % kChunkBytes);
}

constexpr std::size_t plane_bytes(std::uint32_t n_rows, std::uint32_t n_chunks) {
  return std::size_t{(n_rows + kTileRows - 1) / kTileRows} * n_chunks * kTileRows * kChunkBytes;
}

// Rows of a reply that a device sorts, in shared memory; a longer one leaves it unsorted.
inline constexpr std::uint32_t kMostSorted = 4096;

// A filter on one segment: a program of tests.
struct SegmentFilter {
  std::uint32_t test_begin;
  std::uint32_t n_tests;
};

}  // namespace hyrecall
