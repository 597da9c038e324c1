#include "engine/dense/int8_plane.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.hpp"

namespace hyrecall {
namespace {

constexpr std::uint8_t kZeroCode = 128;

std::size_t padded(std::size_t n_rows, std::uint32_t dim) {
  return cpu::int8_blocks(n_rows, dim) * cpu::kInt8BlockRows;
}

// Where line 0 of a row's block holds the row's elements; line i is kInt8LineBytes further.
std::size_t place(std::uint32_t dim, Row row) {
  return row / cpu::kInt8BlockRows * cpu::int8_block_bytes(dim) +
         row % cpu::kInt8BlockRows * cpu::kInt8Step;
}

}  // namespace

void Int8Plane::check(std::size_t n_rows, std::uint32_t dim, std::string const& argument) const {
  std::size_t const n_blocks = cpu::int8_blocks(n_rows, dim);
  std::size_t const n_padded = n_blocks * cpu::kInt8BlockRows;
  if (codes.size() != n_blocks * cpu::int8_block_bytes(dim) || scales.size() != n_padded ||
      residuals.size() != n_padded) {
    throw Error(ErrorCode::kCorrupt, argument,
                "expected a plane of " + std::to_string(n_blocks) + " blocks, got another size");
  }
}

void Int8Plane::check_late(std::uint32_t dim, Row begin_block, Row end_block) const {
  if (checks == nullptr) return;
  std::size_t const block_bytes = cpu::int8_block_bytes(dim);
  std::size_t const begin = begin_block * std::size_t{cpu::kInt8BlockRows};
  std::size_t const end = end_block * std::size_t{cpu::kInt8BlockRows};
  checks->ensure(codes, begin_block * block_bytes, end_block * block_bytes);
  checks->ensure(scales, begin, end);
  checks->ensure(residuals, begin, end);
}

Int8PlaneBuilder::Int8PlaneBuilder(std::size_t n_rows, std::uint32_t dim)
    : dim_(dim),
      codes_(padded(n_rows, dim) * cpu::int8_steps(dim) * cpu::kInt8Step),
      scales_(padded(n_rows, dim)),
      residuals_(padded(n_rows, dim)) {
  for (std::size_t row = n_rows; row < padded(n_rows, dim); ++row)
    set(static_cast<Row>(row), {0.0f, 0.0f}, nullptr);
}

void Int8PlaneBuilder::set(Row row, Int8Row const& quantized, std::int8_t const* codes) {
  std::uint8_t* const at = codes_.data() + place(dim_, row);
  bool const is_there = quantized.scale != 0.0f;
  for (std::size_t i = 0; i < cpu::int8_steps(dim_) * cpu::kInt8Step; ++i) {
    int const code = is_there && i < dim_ ? codes[i] : 0;
    at[i / cpu::kInt8Step * cpu::kInt8LineBytes + i % cpu::kInt8Step] =
        static_cast<std::uint8_t>(code + kZeroCode);
  }
  scales_[row] = quantized.scale;
  residuals_[row] = is_there ? quantized.residual : -std::numeric_limits<float>::infinity();
}

void Int8PlaneBuilder::copy(Row row, Int8Plane const& from, Row from_row) {
  std::uint8_t* const at = codes_.data() + place(dim_, row);
  std::uint8_t const* const source = from.codes.data() + place(dim_, from_row);
  for (std::size_t step = 0; step < cpu::int8_steps(dim_); ++step)
    std::memcpy(at + step * cpu::kInt8LineBytes, source + step * cpu::kInt8LineBytes,
                cpu::kInt8Step);
  scales_[row] = from.scales[from_row];
  residuals_[row] = from.residuals[from_row];
}

Int8Plane Int8PlaneBuilder::finish() && {
  return {std::move(codes_).finish(), std::move(scales_).finish(), std::move(residuals_).finish()};
}

Int8Row plane_row(Int8Plane const& plane, std::uint32_t dim, Row row, std::int8_t* codes) {
  std::uint8_t const* const at = plane.codes.data() + place(dim, row);
  for (std::size_t i = 0; i < dim; ++i)
    codes[i] = static_cast<std::int8_t>(
        at[i / cpu::kInt8Step * cpu::kInt8LineBytes + i % cpu::kInt8Step] - kZeroCode);
  return {plane.scales[row], std::max(plane.residuals[row], 0.0f)};
}

}  // namespace hyrecall
