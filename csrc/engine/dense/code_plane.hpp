// A plane of codes of a tensor column's vectors, in the layout of kernels/cpu/first_pass.hpp: of 8
// bits (kernels/int8_bound.hpp), or of 4 (kernels/nibble_code.hpp).
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

using cpu::CodeBits;

inline constexpr Row kTileBlocks = kTileRows / static_cast<Row>(cpu::kInt8BlockRows);

struct CodePlane {
  CodeBits bits = CodeBits::k8;
  Buffer<std::uint8_t> codes;  // [n_blocks, block_bytes(dim, bits)], n_blocks = plane_blocks(...)
  Buffer<float> scales;        // [n_blocks x 16]; 0 where there is no vector
  Buffer<float> residuals;     // [n_blocks x 16]; -inf where there is no vector
  // Set if the file was opened without reading it: each block is checked when it is first read.
  // Null: all blocks are checked.
  std::shared_ptr<BlockChecks const> checks{};

  bool empty() const { return scales.empty(); }
  // Throws unless the arrays have the sizes of a plane of so many rows.
  void check(std::size_t n_rows, std::uint32_t dim, std::string const& argument) const;
  // Must be called before blocks of 16 rows are read.
  void check_late(std::uint32_t dim, Row begin_block, Row end_block) const;
  std::size_t bytes() const { return codes.bytes() + scales.bytes() + residuals.bytes(); }
};

// How scans have used a plane so far, counted in queries times windows of up to 4,096 rows.
struct PlaneUse {
  std::atomic<std::uint64_t> n_windows{0};
  std::atomic<std::uint64_t> n_plain{0};  // of these: so many rows passed that all were scored
};

// Fills a plane of n_rows rows. Threads may fill it together, each its own blocks of 16 rows.
class CodePlaneBuilder {
 public:
  CodePlaneBuilder(std::size_t n_rows, std::uint32_t dim, CodeBits bits = CodeBits::k8);

  // codes: [dim].
  void set(Row row, Int8Row const& quantized, std::int8_t const* codes);
  // Copies a row of another plane whose codes have as many bits.
  void copy(Row row, CodePlane const& from, Row from_row);
  CodePlane finish() &&;

 private:
  std::uint32_t dim_;
  CodeBits bits_;
  Zeroed<std::uint8_t> codes_;
  Zeroed<float> scales_;
  Zeroed<float> residuals_;
};

// The codes of a row of a plane of 8 bits, and its scale and residual (0 where there is no vector).
Int8Row plane_row(CodePlane const& plane, std::uint32_t dim, Row row, std::int8_t* codes);

}  // namespace hyrecall
