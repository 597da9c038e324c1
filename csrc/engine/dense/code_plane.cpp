#include "engine/dense/code_plane.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "kernels/nibble_code.hpp"

namespace hyrecall {
namespace {

constexpr std::uint8_t kZeroCode = 128;

std::size_t padded(std::size_t n_rows, std::uint32_t dim, CodeBits bits) {
  return cpu::plane_blocks(n_rows, dim, bits) * cpu::kInt8BlockRows;
}

// The offset of the row's elements in line 0 of its block; line i is i * kInt8LineBytes further.
std::size_t place(std::uint32_t dim, CodeBits bits, Row row) {
  return row / cpu::kInt8BlockRows * cpu::block_bytes(dim, bits) +
         row % cpu::kInt8BlockRows * cpu::kInt8Step;
}

void write_bytes(std::uint8_t* at, std::uint32_t dim, std::int8_t const* codes) {
  for (std::size_t i = 0; i < cpu::int8_steps(dim) * cpu::kInt8Step; ++i) {
    int const code = codes != nullptr && i < dim ? codes[i] : 0;
    at[i / cpu::kInt8Step * cpu::kInt8LineBytes + i % cpu::kInt8Step] =
        static_cast<std::uint8_t>(code + kZeroCode);
  }
}

// Packs eight odd codes into nibbles. No byte carries into the next: -15 + 128 + 15 is 128, and the
// sign bit is flipped back.
std::uint64_t nibbles_of(std::int8_t const* codes) {
  constexpr std::uint64_t kSigns = 0x8080808080808080;
  constexpr std::uint64_t kMost = 0x0f0f0f0f0f0f0f0f;
  static_assert(kNibbleMost == 15);
  std::uint64_t bytes;
  std::memcpy(&bytes, codes, sizeof bytes);
  return (((bytes & ~kSigns) + kMost) ^ (bytes & kSigns)) >> 1;
}

// Missing rows and padding hold the code 1, since no code stands for 0.
void write_nibbles(std::uint8_t* at, std::uint32_t dim, std::int8_t const* codes) {
  constexpr std::size_t kStep = cpu::line_step(CodeBits::k4);
  static_assert(kStep == 8 && cpu::kInt8Step == 4 && std::endian::native == std::endian::little);
  constexpr std::int8_t kOnes[kStep] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (std::size_t first = 0; first < dim; first += kStep, at += cpu::kInt8LineBytes) {
    std::int8_t last[kStep] = {1, 1, 1, 1, 1, 1, 1, 1};
    std::int8_t const* from = codes == nullptr ? kOnes : codes + first;
    if (codes != nullptr && dim - first < kStep) {
      std::copy(from, codes + dim, last);
      from = last;
    }
    std::uint64_t const nibbles = nibbles_of(from);
    auto const both =
        static_cast<std::uint32_t>(nibbles) | static_cast<std::uint32_t>(nibbles >> 32) << 4;
    std::memcpy(at, &both, sizeof both);
  }
}

}  // namespace

void CodePlane::check(std::size_t n_rows, std::uint32_t dim, std::string const& argument) const {
  std::size_t const n_blocks = cpu::plane_blocks(n_rows, dim, bits);
  std::size_t const n_padded = n_blocks * cpu::kInt8BlockRows;
  if (codes.size() != n_blocks * cpu::block_bytes(dim, bits) || scales.size() != n_padded ||
      residuals.size() != n_padded) {
    throw Error(ErrorCode::kCorrupt, argument,
                "expected a plane of " + std::to_string(n_blocks) + " blocks, got another size");
  }
}

void CodePlane::check_late(std::uint32_t dim, Row begin_block, Row end_block) const {
  if (checks == nullptr) return;
  std::size_t const block_bytes = cpu::block_bytes(dim, bits);
  std::size_t const begin = begin_block * std::size_t{cpu::kInt8BlockRows};
  std::size_t const end = end_block * std::size_t{cpu::kInt8BlockRows};
  checks->ensure(codes, begin_block * block_bytes, end_block * block_bytes);
  checks->ensure(scales, begin, end);
  checks->ensure(residuals, begin, end);
}

CodePlaneBuilder::CodePlaneBuilder(std::size_t n_rows, std::uint32_t dim, CodeBits bits)
    : dim_(dim),
      bits_(bits),
      codes_(cpu::plane_blocks(n_rows, dim, bits) * cpu::block_bytes(dim, bits)),
      scales_(padded(n_rows, dim, bits)),
      residuals_(padded(n_rows, dim, bits)) {
  for (std::size_t row = n_rows; row < padded(n_rows, dim, bits); ++row)
    set(static_cast<Row>(row), {0.0f, 0.0f}, nullptr);
}

void CodePlaneBuilder::set(Row row, Int8Row const& quantized, std::int8_t const* codes) {
  std::uint8_t* const at = codes_.data() + place(dim_, bits_, row);
  bool const is_there = quantized.scale != 0.0f;
  auto const write = bits_ == CodeBits::k8 ? write_bytes : write_nibbles;
  write(at, dim_, is_there ? codes : nullptr);
  scales_[row] = quantized.scale;
  residuals_[row] = is_there ? quantized.residual : -std::numeric_limits<float>::infinity();
}

void CodePlaneBuilder::copy(Row row, CodePlane const& from, Row from_row) {
  std::uint8_t* const at = codes_.data() + place(dim_, bits_, row);
  std::uint8_t const* const source = from.codes.data() + place(dim_, bits_, from_row);
  std::size_t const n_bytes = cpu::block_bytes(dim_, bits_);
  for (std::size_t line = 0; line < n_bytes; line += cpu::kInt8LineBytes)
    std::memcpy(at + line, source + line, cpu::kInt8Step);
  scales_[row] = from.scales[from_row];
  residuals_[row] = from.residuals[from_row];
}

CodePlane CodePlaneBuilder::finish() && {
  return {bits_, std::move(codes_).finish(), std::move(scales_).finish(),
          std::move(residuals_).finish()};
}

Int8Row plane_row(CodePlane const& plane, std::uint32_t dim, Row row, std::int8_t* codes) {
  std::uint8_t const* const at = plane.codes.data() + place(dim, CodeBits::k8, row);
  for (std::size_t i = 0; i < dim; ++i)
    codes[i] = static_cast<std::int8_t>(
        at[i / cpu::kInt8Step * cpu::kInt8LineBytes + i % cpu::kInt8Step] - kZeroCode);
  return {plane.scales[row], std::max(plane.residuals[row], 0.0f)};
}

}  // namespace hyrecall
