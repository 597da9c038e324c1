// The first pass without vector instructions: the reading that every other copy must equal.
#include <cmath>

#include "kernels/cpu/front.hpp"

namespace hyrecall::cpu {
namespace scalar_front {
namespace {

constexpr int kBlocks = 1;
constexpr int kAtOnce = 1;

struct Line {
  std::uint8_t const* bytes;
  static Line load(std::uint8_t const* from) { return {from}; }
};
struct Quad {
  std::uint8_t const* codes;
  static Quad load(std::uint8_t const* from) { return {from}; }
};
struct Sums {
  std::int32_t row[16];
  static Sums zero() { return {}; }
  void add(Line const& line, Quad const& quad) {
    for (int r = 0; r < 16; ++r) {
      for (int j = 0; j < 4; ++j)
        row[r] += (line.bytes[r * 4 + j] - 128) * static_cast<std::int8_t>(quad.codes[j]);
    }
  }
  void join(Sums const& other) {
    for (int r = 0; r < 16; ++r) row[r] += other.row[r];
  }
  std::uint32_t passes(std::int32_t, float const* scales, float const* residuals, float scale,
                       float per_residual, float cut, float* reach) const {
    std::uint32_t out = 0;
    for (int r = 0; r < 16; ++r) {
      float const score = static_cast<float>(row[r]) * scales[r] * scale;
      reach[r] = std::fmaf(residuals[r], per_residual, score);
      out |= static_cast<std::uint32_t>(reach[r] >= cut) << r;
    }
    return out;
  }
};

#include "kernels/cpu/front.inl.hpp"

}  // namespace
}  // namespace scalar_front

FrontKernels scalar_front_kernels() {
  return scalar_front::make_front_kernels("scalar");
}

}  // namespace hyrecall::cpu
