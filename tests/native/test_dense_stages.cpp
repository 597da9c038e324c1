// The arithmetic of stages, scores as numbers and masks of ranges, each against a loop.
#include <cmath>
#include <limits>
#include <set>

#include "device/dense_planner.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/score_key.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

// Positions of a step, by its definition.
std::vector<std::uint32_t> positions_of(StageStep step, std::uint32_t begin, std::uint32_t end) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = begin; at < end; ++at) {
    if (step.stride == 0 || at % step.stride != 0) continue;
    if (step.taken != 0 && at % step.taken == 0) continue;
    out.push_back(at);
  }
  return out;
}

// Strides of the levels that stage_level gives, and some beyond.
bool fits(std::uint32_t growth, std::uint32_t level) {
  return std::pow(growth, level) < 0x1p31;
}

TEST(stages_take_every_position_once) {
  Rng rng(1);
  for (std::uint32_t growth = 2; growth <= 32; ++growth) {
    for (std::uint32_t level = 0; level < kMaxStages && fits(growth, level); ++level) {
      for (int round = 0; round < 12; ++round) {
        std::uint32_t const begin = round == 0 ? 0 : rng.below(round < 6 ? 40u : 1u << 25);
        std::uint32_t const end = begin + rng.below(round % 2 == 0 ? 30u : 1500u);
        std::vector<int> seen(end - begin, 0);
        for (std::uint32_t stage = 0; stage < kMaxStages; ++stage) {
          StageStep const step = stage_step(growth, level, stage);
          CHECK_EQ(step.stride == 0, stage > level);
          auto const wanted = positions_of(step, begin, end);
          CHECK_EQ(n_in_step(step, begin, end), wanted.size());
          for (std::uint32_t i = 0; i < wanted.size(); ++i) {
            CHECK_EQ(position_in_step(step, begin, i), wanted[i]);
            seen[wanted[i] - begin] += 1;
          }
        }
        for (int n : seen) CHECK_EQ(n, 1);
      }
    }
  }
}

TEST(stages_begin_with_no_more_than_the_seed) {
  Rng rng(2);
  for (std::uint32_t growth = 2; growth <= 32; ++growth) {
    for (int round = 0; round < 300; ++round) {
      std::uint32_t const n_tiles = rng.below(1u << rng.below(26u));
      std::uint32_t const seed = 1 + rng.below(1u << rng.below(14u));
      std::uint32_t const level = stage_level(growth, seed, n_tiles);
      CHECK(level < kMaxStages);
      double const stride = std::pow(growth, level);
      CHECK(stride + 0x1p25 < 0x1p32);  // begin + stride in 32 bits
      CHECK(level == 0 || stride < 1.0 * growth * n_tiles);
      std::uint32_t const first = n_in_step(stage_step(growth, level, 0), 0, n_tiles);
      if (level + 1 < kMaxStages) CHECK(first <= seed);
      if (level > 0) CHECK(n_in_step(stage_step(growth, level - 1, 0), 0, n_tiles) > seed);
    }
  }
  CHECK_EQ(stage_level(2, std::numeric_limits<std::uint32_t>::max(), 1u << 25), 0u);
}

TEST(tuning_has_room_for_its_seed) {
  for (std::size_t n : {0ul, 1ul, 2ul, 8ul, 64ul, 65ul, 300ul, 1024ul, 100'000ul}) {
    for (std::size_t depth : {0ul, 1ul, 10ul, 100ul, 1000ul, 4096ul, 100'000ul, 4'000'000'000ul}) {
      DenseTuning const tuning = choose_tuning(n, depth);
      CHECK(tuning.capacity >= 2 * kTileRows * std::uint64_t{tuning.seed_tiles} ||
            depth > 1u << 28);
      CHECK(tuning.seed_tiles >= 1);
      CHECK(tuning.growth >= 2 && tuning.growth <= 32);
      // Room for 16 times the growth x depth rows that a stage would meet without an error bound.
      if (tuning.growth > 2) CHECK(16 * tuning.growth * depth <= tuning.capacity);
      CHECK(tuning.capacity >= std::min<std::size_t>(depth, kNone32 - 1));
      // All queries of a piece: 64 MB, or what the depth demands.
      std::size_t const all = std::max<std::size_t>(n, 1) * tuning.capacity;
      CHECK(all <= std::max<std::size_t>(std::size_t{1} << 23,
                                         std::max<std::size_t>(n, 1) * (16384 + 32 * depth)));
    }
  }
}

// ---- scores as numbers

std::vector<float> some_floats(Rng& rng) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> out{-Limits::infinity(),
                         -Limits::max(),
                         -2.0f,
                         -1.0f,
                         -Limits::min(),
                         -Limits::denorm_min(),
                         -0.0f,
                         0.0f,
                         Limits::denorm_min(),
                         3 * Limits::denorm_min(),
                         Limits::min(),
                         0.5f,
                         1.0f,
                         2.0f,
                         Limits::max(),
                         Limits::infinity()};
  for (float edge : {0.0f, Limits::min(), 1.0f, -1.0f, -Limits::min()}) {
    out.push_back(std::nextafter(edge, 9.0f));
    out.push_back(std::nextafter(edge, -9.0f));
  }
  for (int i = 0; i < 300; ++i) {
    auto const bits = static_cast<std::uint32_t>(rng.below(std::uint64_t{1} << 32));
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) out.push_back(value);
  }
  return out;
}

TEST(score_key_rises_with_the_score) {
  Rng rng(3);
  std::vector<float> const values = some_floats(rng);
  for (float a : values) {
    CHECK(score_key(a) != 0);  // free for "none"
    CHECK_EQ(score_of_key(score_key(a)), a);
    CHECK(!std::signbit(score_of_key(score_key(a))) || a != 0.0f);
    for (float b : values) {
      CHECK_EQ(score_key(a) < score_key(b), a < b);
      CHECK_EQ(score_key(a) == score_key(b), a == b);
      CHECK_EQ(candidate_key(a, 7) < candidate_key(b, 3), a < b);
    }
    CHECK(candidate_key(a, 7) > candidate_key(a, 3));
    CHECK_EQ(candidate_score(candidate_key(a, kNone32 - 1)), a);
    CHECK_EQ(candidate_slot(candidate_key(a, kNone32 - 1)), kNone32 - 1);
  }
}

TEST(seq_key_falls_as_numbers_rise) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::vector<std::int64_t> const seqs{
      Limits::min(),         Limits::min() + 1, -5,           -1, 0, 1, 2,
      std::int64_t{1} << 40, Limits::max() - 1, Limits::max()};
  for (std::int64_t a : seqs) {
    for (std::int64_t b : seqs) CHECK_EQ(seq_key(a) > seq_key(b), a < b);
  }
}

TEST(float_below_is_the_next) {
  Rng rng(4);
  float const least = -std::numeric_limits<float>::infinity();
  for (float value : some_floats(rng)) {
    float const below = next_below(value);
    CHECK_EQ(below, std::nextafter(value, least));
    CHECK(below < value || value == least);
  }
}

// ---- masks

TEST(mask_of_ranges_holds_the_rows_of_a_tile) {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SlotRange> ranges;
    std::uint32_t const most = round % 3 == 0 ? 3u : round % 3 == 1 ? 60u : 700u;
    std::uint32_t const offset = round % 5 == 0 ? 0xfffff000u - 0x600u : 0;
    std::uint32_t at = offset + rng.below(most);
    while (at < offset + 1000) {
      std::uint32_t const end = std::min(at + 1 + rng.below(most), offset + 1000);
      ranges.push_back({at, end});
      at = end + 1 + rng.below(most);
    }
    if (round % 50 == 0) ranges.clear();
    for (std::uint32_t tile = offset / kTileRows; tile < offset / kTileRows + 10; ++tile) {
      TileMask const mask =
          mask_of_ranges(ranges.data(), static_cast<std::uint32_t>(ranges.size()), tile);
      for (std::uint32_t i = 0; i < kTileRows; ++i) {
        std::uint32_t const slot = tile * kTileRows + i;
        bool wanted = false;
        for (SlotRange const& range : ranges) wanted |= range.begin <= slot && slot < range.end;
        CHECK_EQ(mask.test(i), wanted);
      }
    }
  }
}

TEST(run_of_a_number_is_the_last_that_begins_there) {
  Rng rng(6);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint32_t> begins{0};
    for (std::uint32_t i = rng.below(20u); i > 0; --i)
      begins.push_back(begins.back() + rng.below(4u));
    for (std::uint32_t wanted = 0; wanted < begins.back() + 3; ++wanted) {
      std::uint32_t const at =
          find_run(begins.data(), static_cast<std::uint32_t>(begins.size()), wanted);
      CHECK(begins[at] <= wanted);
      CHECK(at + 1 == begins.size() || begins[at + 1] > wanted);
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
