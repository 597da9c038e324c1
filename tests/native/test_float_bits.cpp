// Directed rounding and 16-bit floats against the standard library's neighbours and exact
// midpoints.
#include <cmath>

#include "core/float_bits.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(float_bits_of_16_bit_floats_come_back_and_their_midpoints_go_to_even) {
  for (bool const is_half : {true, false}) {
    std::uint16_t const greatest = is_half ? 0x7bff : 0x7f7f;
    auto const narrowed = is_half ? float16_bits : bfloat16_bits;
    auto const value_of = is_half ? float16_value : bfloat16_value;
    for (std::uint32_t bits = 0; bits <= greatest; ++bits) {
      auto const low = static_cast<std::uint16_t>(bits);
      double const value = value_of(low);
      CHECK_EQ(narrowed(value), low);
      CHECK_EQ(narrowed(-value), static_cast<std::uint16_t>(low | 0x8000));
      if (bits == greatest) break;
      auto const high = static_cast<std::uint16_t>(bits + 1);
      double const middle = (value + value_of(high)) / 2;  // exact in float64
      CHECK_EQ(narrowed(middle), (low & 1) == 0 ? low : high);
      CHECK_EQ(narrowed(std::nextafter(middle, 0.0)), low);
      CHECK_EQ(narrowed(std::nextafter(middle, 1e300)), high);
      CHECK_EQ(narrowed(-std::nextafter(middle, 0.0)), static_cast<std::uint16_t>(low | 0x8000));
    }
  }
}

TEST(float_bits_of_16_bit_floats_have_the_bits_of_ieee) {
  CHECK_EQ(float16_bits(1.0), 0x3c00);
  CHECK_EQ(float16_bits(-2.0), 0xc000);
  CHECK_EQ(float16_bits(0x1p-14), 0x0400);
  CHECK_EQ(float16_bits(0x1p-24), 0x0001);
  CHECK_EQ(float16_bits(0x1p-25), 0x0000);
  CHECK_EQ(float16_bits(1023.5 * 0x1p-24), 0x0400);  // a subnormal rounds to the least normal
  CHECK_EQ(float16_bits(0.99999), 0x3c00);           // the carry reaches the exponent
  CHECK_EQ(float16_bits(1.0 + 3 * 0x1p-11), 0x3c02);
  CHECK_EQ(bfloat16_bits(1.0), 0x3f80);
  CHECK_EQ(bfloat16_bits(1.0 + 0x1p-8), 0x3f80);
  CHECK_EQ(bfloat16_bits(1.0 + 3 * 0x1p-8), 0x3f82);
  CHECK_EQ(bfloat16_bits(0x1p-133), 0x0001);
  CHECK_EQ(bfloat16_bits(-0x1p-1000), 0x8000);
  CHECK_EQ(float16_value(0x0001), 0x1p-24f);
  CHECK_EQ(float16_value(0xfbff), -65504.0f);
}

TEST(float_bits_round_up_and_down_to_neighbours) {
  Rng rng(1);
  for (double value : {1.0 / 3, -1.0 / 3, 1e-50, -1e-50, 0.1, -0.1, 1.0, 0.0, 0x1p-149}) {
    float const up = float_up(value);
    float const down = float_down(value);
    CHECK(down <= value && value <= up);
    CHECK(up == down || std::nextafter(down, 2.0f) == up);
  }
  for (int i = 0; i < 1000; ++i) {
    double const value = (rng.unit() - 0.5) * std::ldexp(1.0, rng.below(80) - 60);
    CHECK(std::nextafter(float_up(value), -1e30f) < value && value <= float_up(value));
    CHECK(std::nextafter(float_down(value), 1e30f) > value && value >= float_down(value));
  }
}

}  // namespace
}  // namespace hyrecall::testing
