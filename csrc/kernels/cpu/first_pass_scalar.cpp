// The first pass without vector instructions: the reading that every other copy must equal.
#include <cmath>

#include "kernels/cpu/first_pass.hpp"

namespace hyrecall::cpu {
namespace scalar_first_pass {
namespace {

constexpr int kBlocks = 1;
constexpr int kAtOnce = 1;

struct Line {
  std::uint8_t const* bytes;
  static Line load(std::uint8_t const* from) { return {from}; }
};
struct Half {
  std::uint8_t const* bytes;
  int shift;
};
struct Nibbles {
  Half low, high;
  static Nibbles load(std::uint8_t const* from) { return {{from, 0}, {from, 4}}; }
};
struct Quad {
  std::uint8_t const* codes;
  static Quad load(std::uint8_t const* from) { return {from}; }
};
struct Block {
  float const* scales;
  float const* residuals;
  static Block load(float const* scales, float const* residuals) { return {scales, residuals}; }
};
struct Sums {
  std::int32_t row[16];
  static Sums zero() { return {}; }
  static Sums start(std::int32_t) { return zero(); }
  void add(Line const& line, Quad const& quad) {
    for (int r = 0; r < 16; ++r) {
      for (int j = 0; j < 4; ++j)
        row[r] += (line.bytes[r * 4 + j] - 128) * static_cast<std::int8_t>(quad.codes[j]);
    }
  }
  void add(Half const& half, Quad const& quad) {
    for (int r = 0; r < 16; ++r) {
      for (int j = 0; j < 4; ++j)
        row[r] +=
            (half.bytes[r * 4 + j] >> half.shift & 15) * static_cast<std::int8_t>(quad.codes[j]);
    }
  }
  void centre(std::int32_t offset) {
    for (std::int32_t& one : row) one = 2 * one + offset;
  }
  void join(Sums const& other) {
    for (int r = 0; r < 16; ++r) row[r] += other.row[r];
  }
  float reach(Block const& block, int r, float scale, float per_residual) const {
    float const score = static_cast<float>(row[r]) * block.scales[r] * scale;
    return std::fmaf(block.residuals[r], per_residual, score);
  }
  std::uint32_t passes(Block const& block, float scale, float per_residual, float cut) const {
    std::uint32_t out = 0;
    for (int r = 0; r < 16; ++r)
      out |= static_cast<std::uint32_t>(reach(block, r, scale, per_residual) >= cut) << r;
    return out;
  }
  void store_reach(Block const& block, float scale, float per_residual, float* to) const {
    for (int r = 0; r < 16; ++r) to[r] = reach(block, r, scale, per_residual);
  }
};

#include "kernels/cpu/first_pass.inl.hpp"
#include "kernels/cpu/nibble_pass.inl.hpp"

}  // namespace
}  // namespace scalar_first_pass

FirstPassKernels scalar_first_pass_kernels() {
  return scalar_first_pass::make_first_pass_kernels("scalar");
}

FirstPassKernels scalar_nibble_pass_kernels() {
  return scalar_first_pass::make_nibble_pass_kernels("scalar, 4 bits");
}

}  // namespace hyrecall::cpu
