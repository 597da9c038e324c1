// Thresholds that few rows pass: one pass is enough, whether all tiles of a query are read first or
// a sample of them.
#include <algorithm>
#include <set>

#include "device/dense_planner.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kRows = 3'000;
constexpr std::size_t kManyQueries = 12;

DeviceWorld thick_world(Rng& rng, bool has_ties) {
  DeviceWorld world{RowType::kFloat32, 3, {{}}};
  for (std::uint32_t i = 0; i < kRows; ++i) {
    std::vector<float> const row =
        has_ties && i % 2 == 0 ? std::vector<float>{1.0f, 0.0f, 0.0f} : random_vector(rng, 3);
    world.add_row(world.segments[0], row, scattered_seq(i));
  }
  world.place();
  return world;
}

// Gives the launches of the batch, whose rows are those of a full sort.
std::uint64_t launches_of(Rng& rng, bool has_ties, std::uint32_t depth, DenseTuning tuning) {
  DeviceWorld const world = thick_world(rng, has_ties);
  auto const table = world.upload();
  WorldBatch batch;
  batch.see(world.everything());
  for (std::size_t q = 0; q < kManyQueries; ++q) batch.ask(0, random_vector(rng, 3), depth);
  batch.tuning = tuning;
  std::uint64_t const before = emulated().work().n_launches;
  check_batch(world, *table, batch);
  return emulated().work().n_launches - before;
}

// A further pass would be as many launches again.
TEST(device_searches_once_where_thresholds_are_good) {
  skip_under_thread_sanitizer();
  Rng rng(61);
  std::uint64_t n_launches = 0;
  auto const check = [&](std::uint32_t depth, DenseTuning tuning) {
    std::uint64_t const n = launches_of(rng, false, depth, tuning);
    if (n_launches == 0) n_launches = n;
    CHECK_EQ(n, n_launches);
  };
  for (std::uint32_t const depth : {1u, 10u, 100u, 256u, 257u, 1000u}) check(depth, {1'536, 24, 2});
  for (std::uint32_t const depth : {1u, 5u, 10u}) {
    for (std::uint32_t const stride : {2u, 4u}) check(depth, {2'200, 1, stride});
  }
  // Of thousands of equal rows all may be among the best.
  CHECK_EQ(launches_of(rng, true, 10, {1'536, 24, 2}), n_launches);
}

// ---- how often a guess is too high

// A scope of so many tiles, as the planner reads it.
struct Sampled {
  Sampled(std::uint32_t n_tiles_, std::uint32_t depth_) : n_tiles(n_tiles_), depth(depth_) {
    std::vector<SlotRanges> const scopes{{{0, n_tiles * kTileRows}}};
    std::vector<std::uint32_t> const none{kNone32}, zero{0}, depths{depth};
    DensePlan const plan({scopes, zero, none, zero, depths, choose_tuning(depth, n_tiles)});
    stride = plan.groups[0].stride;
    rank = plan.guess_ranks[0];
  }
  std::uint32_t n_tiles;
  std::uint32_t depth;
  std::uint32_t stride = 0;
  std::uint32_t rank = 0;
};

// Where the best rows lie: anywhere; in runs of rows; in one part of the tiles.
enum class Lie { kAnywhere, kInRuns, kInOnePart };

// Whether the sample has so many blocks with one of the best rows that its guess is too high.
bool is_too_high(Rng& rng, Sampled const& of, Lie lie) {
  std::uint32_t const n_rows = of.n_tiles * kTileRows;
  std::uint32_t const run = lie == Lie::kInRuns ? 1 + rng.below(200u) : 1;
  std::uint32_t const part =
      lie == Lie::kInOnePart ? std::max(n_rows / (1 + rng.below(64u)), of.depth) : n_rows;
  std::uint32_t const first = rng.below(n_rows - part + 1);
  std::set<std::uint32_t> blocks;
  for (std::uint32_t n = 0; n < of.depth;) {
    std::uint32_t const begin = first + rng.below(part);
    for (std::uint32_t i = 0; i < run && n < of.depth; ++i, ++n) {
      std::uint32_t const row = (begin + i) % n_rows;
      if (row / kTileRows % of.stride == 0) blocks.insert(row / kSampleRows);
    }
  }
  return blocks.size() >= of.rank;
}

TEST(guesses_are_too_high_for_fewer_than_one_query_in_10000) {
  Rng rng(62);
  for (Lie const lie : {Lie::kAnywhere, Lie::kInRuns, Lie::kInOnePart}) {
    int n_high = 0;
    int n_queries = 0;
    for (std::uint32_t n_tiles = 5; n_tiles <= 8'000; n_tiles = n_tiles * 5 / 4 + 1) {
      for (std::uint32_t const depth : {1u, 10u, 100u, 300u}) {
        Sampled const of(n_tiles, depth);
        CHECK(of.stride == 1 || of.rank > 0);  // no query without a threshold
        for (int round = 0; round < 1'500 && of.stride > 1; ++round, ++n_queries)
          n_high += is_too_high(rng, of, lie) ? 1 : 0;
      }
    }
    CHECK(n_queries > 90'000);
    CHECK(n_high <= n_queries / 10'000);
  }
}

// Of 1,000,000 rows of 1,000 tenants by Zipf's law, 1,024 queries, each with the scope of the
// tenant of a random row: bench/device_cases.py.
TEST(plan_of_many_tenants_has_a_threshold_for_each_query) {
  Rng rng(63);
  constexpr std::uint32_t kTenants = 1'000;
  std::vector<SlotRanges> scopes;
  std::vector<std::uint32_t> groups, filters, group_of, depths;
  std::vector<std::uint32_t> ends;
  double all = 0.0;
  for (std::uint32_t s = 1; s <= kTenants; ++s) all += 1.0 / s;
  std::uint32_t at = 0;
  for (std::uint32_t s = 0; s < kTenants; ++s) {
    auto const n = static_cast<std::uint32_t>(1e6 / all / (1 + s * 379 % kTenants)) + 1;
    scopes.push_back({{at, at + n}});
    at += n;
    ends.push_back(at);
    groups.push_back(s);
    filters.push_back(kNone32);
  }
  for (int q = 0; q < 1024; ++q) {
    auto const found = std::upper_bound(ends.begin(), ends.end(), rng.below(at));
    group_of.push_back(static_cast<std::uint32_t>(found - ends.begin()));
    depths.push_back(100);
  }
  DensePlan const plan({scopes, groups, filters, group_of, depths, choose_tuning(100, 1'100), 256});
  std::uint64_t n_visits = 0;
  std::uint64_t n_alone = 0;  // visits, if each query read its own tiles by itself
  for (std::uint32_t q = 0; q < group_of.size(); ++q) {
    DenseGroup const& group = plan.groups[group_of[q]];
    CHECK(group.stride == 1 || plan.guess_ranks[q] > 0);
    SlotRange const own = scopes[group_of[q]][0];
    n_alone += (own.end - 1) / kTileRows + 1 - own.begin / kTileRows;
  }
  n_visits = plan.n_first + plan.n_rest + plan.n_wide;
  CHECK(n_visits < n_alone / 8);
}

}  // namespace
}  // namespace hyrecall::testing
