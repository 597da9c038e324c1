// What:   a block of 16 rows in four 4-lane registers: what first_pass.inl.hpp and
//         nibble_pass.inl.hpp need of NEON.
// Cost:   4 x add_products() a line and query. Four queries at once: 16 sums and 4 registers of the
//         line, which eight queries would not leave room for.
//
// Included once by each first_pass_neon*.cpp inside its own and an anonymous namespace, after it
// has defined add_products(sums, rows, query): the four products of each row with the query's four
// codes, added to the row's sum. Codes lie in -127 .. 127.

constexpr int kBlocks = 1;
constexpr int kAtOnce = 4;

struct Line {
  int8x16_t rows[4];  // codes of rows 0-3, 4-7, 8-11, 12-15
  static Line load(std::uint8_t const* from) {
    uint8x16_t const offset = vdupq_n_u8(0x80);
    Line out;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      out.rows[i] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from + 16 * i), offset));
    return out;
  }
};
struct Nibbles {
  Line low, high;
  static Nibbles load(std::uint8_t const* from) {
    Nibbles out;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      uint8x16_t const bytes = vld1q_u8(from + 16 * i);
      out.low.rows[i] = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
      out.high.rows[i] = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    }
    return out;
  }
};
struct Quad {
  int8x16_t codes;
  static Quad load(std::uint8_t const* from) {
    std::int32_t bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return {vreinterpretq_s8_s32(vdupq_n_s32(bits))};
  }
};
struct Block {
  float const* scales;
  float const* residuals;
  static Block load(float const* scales, float const* residuals) { return {scales, residuals}; }
};
struct Sums {
  int32x4_t rows[4];
  static Sums zero() {
    int32x4_t const none = vdupq_n_s32(0);
    return {{none, none, none, none}};
  }
  static Sums start(std::int32_t) { return zero(); }
  void add(Line const& line, Quad const& quad) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) rows[i] = add_products(rows[i], line.rows[i], quad.codes);
  }
  void centre(std::int32_t offset) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) rows[i] = vaddq_s32(vshlq_n_s32(rows[i], 1), vdupq_n_s32(offset));
  }
  void join(Sums const& other) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) rows[i] = vaddq_s32(rows[i], other.rows[i]);
  }
  float32x4_t reach(Block const& block, int i, float scale, float per_residual) const {
    float32x4_t const by_row = vmulq_f32(vcvtq_f32_s32(rows[i]), vld1q_f32(block.scales + 4 * i));
    float32x4_t const score = vmulq_n_f32(by_row, scale);
    return vfmaq_n_f32(score, vld1q_f32(block.residuals + 4 * i), per_residual);
  }
  std::uint32_t passes(Block const& block, float scale, float per_residual, float cut) const {
    uint32x4_t const first = {1, 2, 4, 8};
    float32x4_t const cuts = vdupq_n_f32(cut);
    auto const bits = [&](int i) { return vcgeq_f32(reach(block, i, scale, per_residual), cuts); };
    uint32x4_t const low =
        vorrq_u32(vandq_u32(bits(0), first), vandq_u32(bits(1), vshlq_n_u32(first, 4)));
    uint32x4_t const high = vorrq_u32(vandq_u32(bits(2), vshlq_n_u32(first, 8)),
                                      vandq_u32(bits(3), vshlq_n_u32(first, 12)));
    return vaddvq_u32(vorrq_u32(low, high));
  }
  void store_reach(Block const& block, float scale, float per_residual, float* to) const {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, reach(block, i, scale, per_residual));
  }
};
