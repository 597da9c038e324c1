// The int8 plane of a tensor column (kernels/int8_bound.hpp), in the layout of
// kernels/cpu/first_pass.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/block_checks.hpp"
#include "core/buffer.hpp"
#include "core/types.hpp"
#include "core/zeroed.hpp"
#include "kernels/cpu/first_pass.hpp"
#include "kernels/int8_bound.hpp"

namespace hyrecall {

inline constexpr Row kTileBlocks = kTileRows / static_cast<Row>(cpu::kInt8BlockRows);

struct Int8Plane {
  Buffer<std::uint8_t> codes;  // [n_blocks, int8_steps(dim), 16, 4], n_blocks = int8_blocks(...)
  Buffer<float> scales;        // [n_blocks x 16]; 0 where there is no vector
  Buffer<float> residuals;     // [n_blocks x 16]; -inf where there is no vector
  // Of a file that was opened without reading it: blocks are checked when they are first read.
  // Null: all were.
  std::shared_ptr<BlockChecks const> checks{};

  bool empty() const { return scales.empty(); }
  // Throws unless the arrays have the sizes of a plane of so many rows.
  void check(std::size_t n_rows, std::uint32_t dim, std::string const& argument) const;
  // Before anything reads blocks of 16 rows.
  void check_late(std::uint32_t dim, Row begin_block, Row end_block) const;
  std::size_t bytes() const { return codes.bytes() + scales.bytes() + residuals.bytes(); }
};

// How scans have used a plane so far, counted in queries times windows of up to 4,096 rows.
struct PlaneUse {
  std::atomic<std::uint64_t> n_windows{0};
  std::atomic<std::uint64_t> n_plain{0};  // of them: so many rows passed that all were scored
};

// A plane of n_rows rows while it is filled. Threads may fill blocks of 16 rows of their own.
class Int8PlaneBuilder {
 public:
  Int8PlaneBuilder(std::size_t n_rows, std::uint32_t dim);

  // codes: dim of them.
  void set(Row row, Int8Row const& quantized, std::int8_t const* codes);
  // A row of another plane as it is.
  void copy(Row row, Int8Plane const& from, Row from_row);
  Int8Plane finish() &&;

 private:
  std::uint32_t dim_;
  Zeroed<std::uint8_t> codes_;
  Zeroed<float> scales_;
  Zeroed<float> residuals_;
};

// The int8 codes of a row of a plane, and its scale and residual (0 where there is no vector).
Int8Row plane_row(Int8Plane const& plane, std::uint32_t dim, Row row, std::int8_t* codes);

}  // namespace hyrecall
