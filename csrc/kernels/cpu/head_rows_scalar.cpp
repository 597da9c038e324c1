// Heads of rows without vector instructions.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/head_rows.hpp"

namespace hyrecall::cpu {
namespace scalar_head_rows {
namespace {

constexpr int kGroupsAtOnce = 1;

struct Sums {
  float dots[kHeadGroup];
  static Sums zero() { return {}; }
  static Sums load(float const* from) {
    Sums out;
    std::copy_n(from, kHeadGroup, out.dots);
    return out;
  }
  void add_product(Sums const& directions, float value) {
    for (std::size_t j = 0; j < kHeadGroup; ++j)
      dots[j] = std::fmaf(directions.dots[j], value, dots[j]);
  }
  void add(Sums const& piece) {
    for (std::size_t j = 0; j < kHeadGroup; ++j) dots[j] = dots[j] + piece.dots[j];
  }
  void store(float* to) const { std::copy_n(dots, kHeadGroup, to); }
};

#include "kernels/cpu/head_rows.inl.hpp"

}  // namespace
}  // namespace scalar_head_rows

HeadKernels scalar_head_kernels() {
  return scalar_head_rows::make_head_kernels("scalar");
}

}  // namespace hyrecall::cpu
