// The arithmetic of stages, scores as numbers and masks of ranges, each against a loop.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/dense_planner.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/score_key.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(multiples_are_counted_as_a_loop_does) {
  Rng rng(1);
  for (std::uint32_t stride : {1u, 2u, 3u, 8u, 31u, 64u, 1024u, 1u << 18}) {
    for (int round = 0; round < 40; ++round) {
      std::uint32_t const begin = round == 0 ? 0 : rng.below(round < 15 ? 40u : 1u << 25);
      std::uint32_t const end = begin + rng.below(round % 2 == 0 ? 30u : 1500u);
      std::uint32_t n = 0;
      for (std::uint32_t at = begin; at < end; ++at) n += at % stride == 0 ? 1 : 0;
      CHECK_EQ(n_multiples(begin, end, stride), n);
      std::uint32_t const next = next_multiple(begin, stride);
      CHECK(next >= begin && next - begin < stride && next % stride == 0);
    }
  }
}

TEST(guess_ranks_follow_what_a_sample_holds_of_the_best) {
  CHECK_EQ(guess_rank(0.0), 3u);
  CHECK_EQ(guess_rank(1.0 / 64), 4u);
  CHECK_EQ(guess_rank(100.0 / 64), 9u);    // 1.56 + 4.38 + 3
  CHECK_EQ(guess_rank(1000.0 / 64), 33u);  // 15.6 + 13.8 + 3
  CHECK_EQ(guess_rank(64.0), 95u);         // 64 + 28 + 3
  std::uint32_t last = 0;
  for (double mean = 0.0; mean < 5000.0; mean += 0.7) {
    CHECK(guess_rank(mean) >= last && guess_rank(mean) > mean);
    last = guess_rank(mean);
  }
}

TEST(tuning_has_room_for_what_passes_and_a_sample_of_bounded_size) {
  for (std::size_t n_tiles : {0ul, 1ul, 128ul, 129ul, 8'192ul, 8'193ul, 1ul << 20, 1ul << 25}) {
    for (std::size_t depth : {0ul, 1ul, 10ul, 100ul, 1000ul, 4096ul, 100'000ul, 4'000'000'000ul}) {
      DenseTuning const tuning = choose_tuning(depth, n_tiles);
      CHECK(tuning.stride >= 64 && std::has_single_bit(tuning.stride));
      CHECK(n_multiples(0, static_cast<std::uint32_t>(n_tiles), tuning.stride) <= 128);
      CHECK(tuning.capacity >= std::min<std::size_t>(8192 + 32 * depth, kNone32 - 1));
      // Scores of 4 bytes where candidates of 8 would be.
      CHECK(std::uint64_t{tuning.seed_tiles} * kTileRows * 4 <= std::uint64_t{tuning.capacity} * 8);
      CHECK(tuning.seed_tiles >= 128);
    }
  }
}

constexpr FirstPassPlane kInt8 = FirstPassPlane::kInt8;
constexpr FirstPassPlane kBFloat16 = FirstPassPlane::kBFloat16;
constexpr Tuned kMeasured[] = {
    {{132, 144, kInt8, 1024, 64}, kInt8, 128, 32, 16384},
    {{132, 144, kBFloat16, 1024, 1}, kBFloat16, 32, 128, 8192},
};

TEST(tuned_entries_are_found_by_every_part_of_their_key) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  TunedKey const key = TunedKey::of(132, 143'771 * kMiB, kInt8, 768, 33);
  CHECK(find_tuned(kMeasured, key) == &kMeasured[0]);
  for (std::size_t n_queries : {9u, 64u})
    CHECK(find_tuned(kMeasured, TunedKey::of(132, 143'771 * kMiB, kInt8, 1024, n_queries)));
  CHECK(find_tuned(kMeasured, TunedKey::of(132, 143'771 * kMiB, kBFloat16, 513, 1)) ==
        &kMeasured[1]);
  CHECK(TunedKey::of(132, 81'559 * kMiB, kInt8, 1, 5'000) == (TunedKey{132, 80, kInt8, 1, 1024}));
  for (TunedKey const& other : {TunedKey::of(114, 143'771 * kMiB, kInt8, 768, 33),
                                TunedKey::of(132, 81'559 * kMiB, kInt8, 768, 33),
                                TunedKey::of(132, 143'771 * kMiB, kBFloat16, 768, 33),
                                TunedKey::of(132, 143'771 * kMiB, kInt8, 512, 33),
                                TunedKey::of(132, 143'771 * kMiB, kInt8, 768, 65)})
    CHECK(find_tuned(kMeasured, other) == nullptr);
}

TEST(tuned_entries_change_the_room_the_sample_and_the_scans) {
  DenseTuning const model = choose_tuning(100, 7'813);
  DenseTuning const tuned = choose_tuning(100, 7'813, &kMeasured[0]);
  CHECK_EQ(model.stride, 64u);
  CHECK_EQ(model.capacity, 11'392u);
  CHECK_EQ(tuned.stride, 32u);
  CHECK_EQ(tuned.capacity, 19'584u);
  CHECK_EQ(tuned.seed_tiles, 306u);
  CHECK_EQ(choose_tuning(100, 78'130, &kMeasured[0]).stride, 512u);  // half the model's
  CHECK_EQ(choose_tuning(100, 78'130).stride, 1024u);
  KernelChoice const kernels = kernels_of(kMeasured[0]);
  CHECK(!kernels.allows({kInt8, 256, false}));
  CHECK(kernels.allows({kInt8, 128, false}) && kernels.allows({kInt8, 32, true}));
  CHECK(kernels.allows({kBFloat16, 256, false}));
}

TEST(tuned_entries_with_a_wrong_key_do_not_compile) {
  static_assert(are_keys_valid(kMeasured));
  auto const is_valid_with = [](TunedKey const& key) {
    Tuned const table[] = {kMeasured[0], {key, kInt8, 256, 64, 8192}};
    return are_keys_valid(table);
  };
  CHECK(is_valid_with({132, 144, kInt8, 1024, 256}));
  CHECK(!is_valid_with({132, 144, kInt8, 1024, 100}));   // no class of batches
  CHECK(!is_valid_with({132, 144, kInt8, 768, 256}));    // no class of dimensions
  CHECK(!is_valid_with({132, 141, kInt8, 1024, 256}));   // no class of memory
  CHECK(!is_valid_with(kMeasured[0].key));               // twice
  CHECK(!is_valid_with({114, 144, kInt8, 1024, 1024}));  // not in order
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
    SlotRanges ranges;
    std::uint32_t const most = round % 3 == 0 ? 3u : round % 3 == 1 ? 60u : 700u;
    std::uint32_t const offset = round % 5 == 0 ? 0xfffff000u - 0x600u : 0;
    std::uint32_t at = offset + rng.below(most);
    while (at < offset + 1000) {
      std::uint32_t const end = std::min(at + 1 + rng.below(most), offset + 1000);
      ranges.push_back({at, end});
      at = end + 1 + rng.below(most);
    }
    if (round % 50 == 0) ranges = {};
    for (std::uint32_t tile = offset / kTileRows; tile < offset / kTileRows + 10; ++tile) {
      TileMask const mask =
          mask_of_ranges(ranges.begin(), static_cast<std::uint32_t>(ranges.size()), tile);
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

TEST(plan_of_texts_has_room_for_the_first_stage) {
  for (std::size_t n_queries : {1u, 64u, 65u, 1024u}) {
    for (std::size_t depth : {1u, 10u, 100u, 1000u, 4096u, 100'000u}) {
      for (std::size_t n_tiles : {1u, 20u, 123u, 5000u}) {
        DenseTuning const tuning = choose_lexical_tuning(n_queries, depth, n_tiles);
        std::size_t const of_a_tile = std::min<std::size_t>(4 * depth, kDocTileRows);
        std::size_t const sample = (n_tiles + tuning.stride - 1) / tuning.stride;
        CHECK(tuning.seed_tiles >= 1 && tuning.stride >= 8);
        CHECK(tuning.seed_tiles * of_a_tile <= tuning.capacity);
        CHECK(n_tiles <= tuning.seed_tiles || sample * of_a_tile <= tuning.capacity);
      }
    }
  }
  CHECK_EQ(choose_lexical_tuning(1024, 100, 123).seed_tiles, 4u);
  CHECK_EQ(choose_lexical_tuning(1024, 100, 123).stride, 8u);
  CHECK(choose_lexical_tuning(1, 100, 123).seed_tiles > 123);  // a million rows in one stage
}

}  // namespace
}  // namespace hyrecall::testing
