// The dense pass where candidates are hard to choose: ties, near copies by the hundred, deep
// replies, floors, dead tiles, many scopes.
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::uint32_t kDim = 12;
constexpr std::uint32_t kFortyTiles = 40 * kTileRows;

// So many rows about a vector, spread by the factor.
DeviceWorld cluster(Rng& rng, RowType type, std::uint32_t n_rows, float spread) {
  DeviceWorld world{type, kDim, {{}}};
  std::vector<float> const base = random_vector(rng, kDim);
  for (std::uint32_t i = 0; i < n_rows; ++i) {
    std::vector<float> row = random_vector(rng, kDim);
    for (std::uint32_t d = 0; d < kDim; ++d) row[d] = base[d] + row[d] * spread;
    world.add_row(world.segments[0], row, scattered_seq(i));
  }
  world.place();
  return world;
}

std::uint64_t launches_of(DeviceWorld const& world, device::DeviceTable const& table,
                          WorldBatch const& batch) {
  std::uint64_t const before = emulated().n_launches();
  check_batch(world, table, batch);
  return emulated().n_launches() - before;
}

TEST(device_repairs_the_overflow_of_near_copies) {
  skip_under_thread_sanitizer();
  Rng rng(1);
  for (RowType type : {RowType::kFloat32, RowType::kFloat16}) {
    DeviceWorld const world = cluster(rng, type, kFortyTiles, 1e-3f);
    auto const table = world.upload();
    WorldBatch batch;
    batch.see(world.everything());
    batch.see({{200, 900}, {1000, 1001}, {3000, 3500}});
    for (std::uint32_t q = 0; q < 6; ++q) {
      batch.ask(q % 2, random_query(rng, world), 10 + 20 * q,
                q == 3 ? 0.5f : -std::numeric_limits<float>::infinity());
    }
    batch.tuning = DenseTuning{kFortyTiles, 1, 2};
    std::uint64_t const once = launches_of(world, *table, batch);
    batch.tuning = kTight;
    std::uint64_t const repaired = launches_of(world, *table, batch);
    CHECK(repaired > once);
  }
}

TEST(device_searches_again_where_a_sample_misleads) {
  skip_under_thread_sanitizer();
  Rng rng(8);
  DeviceWorld const world = misleading_world(rng, RowType::kFloat32, kDim, {kFortyTiles});
  auto const table = world.upload();
  float const* const near = world.segments[0].values.data();
  for (std::uint32_t n_queries : {1u, 2u, 9u}) {
    WorldBatch batch;
    batch.see(world.everything());
    batch.tuning = DenseTuning{kFortyTiles, 1, 2};
    // Of 100 rows the sample holds all, of which the guess is the 78th: the others are lost.
    for (std::uint32_t q = 0; q < n_queries; ++q) {
      float const* const own = near + q * kSampleRows * kDim;
      batch.ask(0, {own, own + kDim}, 100);
    }
    std::uint64_t const repaired = launches_of(world, *table, batch);
    batch.tuning = DenseTuning{kFortyTiles, 1000, 2};  // all of it is read first
    std::uint64_t const once = launches_of(world, *table, batch);
    CHECK(repaired > once);
  }
}

TEST(device_cuts_ties_by_age) {
  skip_under_thread_sanitizer();
  Rng rng(2);
  DeviceWorld const world = cluster(rng, RowType::kBFloat16, 1300, 0.0f);
  auto const table = world.upload();
  for (bool const is_tight : {false, true}) {
    WorldBatch batch;
    batch.see(world.everything());
    batch.see({{5, 6}, {127, 129}, {640, 900}});
    if (is_tight) batch.tuning = kTight;
    for (std::uint32_t depth : {1u, 7u, 64u, 65u, 263u, 1299u, 1300u, 1301u, 4000u}) {
      batch.ask(0, random_query(rng, world), depth);
      batch.ask(1, random_query(rng, world), depth);
    }
    check_batch(world, *table, batch);
  }
}

TEST(device_gives_any_depth) {
  skip_under_thread_sanitizer();
  Rng rng(3);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, kDim, {3000, 2500});
  auto const table = world.upload();
  float const none = -std::numeric_limits<float>::infinity();
  auto const check = [&](std::vector<std::uint32_t> const& depths, bool is_tight) {
    WorldBatch batch;
    batch.see(world.everything());
    batch.see({{100, 4300}});
    if (is_tight) batch.tuning = kTight;
    for (std::uint32_t depth : depths)
      batch.ask(rng.below(2u), random_query(rng, world), depth, depth % 3 == 0 ? 0.2f : none);
    check_batch(world, *table, batch);
    return found_of(*table, batch.search()).is_sorted;
  };
  CHECK(check({0, 0}, false));
  CHECK(check({0, 1, 2, 3, 50, 4096}, false));
  CHECK(check({0, 1, 2, 3, 50, 4096}, true));
  CHECK(!check({4097, 1, 30, 0, 4500, 5500, 100'000}, false));
  CHECK(!check({4097, 1, 30, 6000}, true));
  // As many as there are.
  CHECK(!check({kNone32, kNone32 - 1, 3}, false));
}

TEST(device_keeps_rows_at_a_floor_and_above_a_strict_one) {
  skip_under_thread_sanitizer();
  Rng rng(4);
  for (float const spread : {0.0f, 1e-4f, 0.3f}) {
    DeviceWorld const world = cluster(rng, RowType::kFloat32, 500, spread);
    auto const table = world.upload();
    WorldBatch all;
    all.see(world.everything());
    std::vector<float> const query = random_vector(rng, kDim);
    all.ask(0, query, 500);
    auto const passes_all = [](std::uint32_t, std::uint32_t, std::uint32_t) { return true; };
    auto const rows = expected_rows(world, all, 0, passes_all);
    WorldBatch batch;
    batch.see(world.everything());
    batch.tuning = kTight;
    for (std::size_t at : {0u, 1u, 9u, 10u, 250u, 499u}) {
      for (bool const is_strict : {false, true}) {
        batch.ask(0, query, 10, rows[at].score, is_strict);
        batch.ask(0, query, 600, rows[at].score, is_strict);
        batch.ask(0, query, 10, std::nextafter(rows[at].score, 2.0f), is_strict);
        batch.ask(0, query, 10, std::nextafter(rows[at].score, -2.0f), is_strict);
      }
    }
    batch.ask(0, query, 10, 1.0f, true);
    batch.ask(0, query, 10, -1.0f, true);
    batch.ask(0, query, 10, 0.0f, true);
    batch.ask(0, query, 10, -0.0f, true);
    check_batch(world, *table, batch);
  }
}

TEST(device_passes_over_dead_tiles_and_empty_segments) {
  Rng rng(5);
  DeviceWorld world = random_world(rng, RowType::kFloat32, kDim, {0, 700, 0, 0, 128, 1, 300, 0});
  for (std::uint32_t row = 0; row < 700; ++row) {
    if (row / kTileRows == 1 || row / kTileRows >= 4) kill(world.segments[1], row);
  }
  for (std::uint32_t row = 0; row < 128; ++row) kill(world.segments[4], row);
  auto const table = world.upload();
  auto const first = [&](std::size_t segment) { return world.segments[segment].first_slot; };
  WorldBatch batch;
  batch.tuning = kTight;
  batch.see(world.everything());
  batch.see({});
  batch.see({{first(4), first(4) + 128}});        // all dead
  batch.see({{first(1) + 128, first(1) + 256}});  // a dead tile
  batch.see({{first(1), first(1) + 128}});        // a tile, to its end
  batch.see({{first(1) + 127, first(1) + 128}, {first(5), first(5) + 1}});
  batch.see({{first(1) + 384, first(1) + 700},
             {first(4), first(4) + 128},
             {first(5), first(5) + 1},
             {first(6), first(6) + 300}});
  batch.see({{first(6) + 255, first(6) + 257}});
  for (std::uint32_t group = 0; group < 8; ++group) {
    for (std::uint32_t depth : {1u, 20u, 500u}) batch.ask(group, random_query(rng, world), depth);
  }
  batch.ask(kNone32, random_query(rng, world), 10);
  batch.ask(0, std::vector<float>(kDim, 0.0f), 10);  // no direction: finds nothing
  check_batch(world, *table, batch);

  // Nothing but empty segments.
  DeviceWorld const empty = random_world(rng, RowType::kFloat16, kDim, {0, 0});
  WorldBatch asked;
  asked.see({});
  asked.ask(0, random_vector(rng, kDim), 10);
  check_batch(empty, *empty.upload(), asked);
  check_batch(empty, *empty.upload(), {});
}

TEST(device_serves_many_queries_of_overlapping_scopes) {
  skip_under_thread_sanitizer();
  Rng rng(6);
  DeviceWorld const world = random_world(rng, RowType::kFloat16, kDim, {1400, 129, 300});
  auto const table = world.upload();
  WorldBatch batch;
  // Cells of 60 rows in the first segment: each scope has some to itself and shares the others.
  for (std::uint32_t scope = 0; scope < 40; ++scope) {
    SlotRanges ranges;
    for (std::uint32_t cell = 0; cell < 22; ++cell) {
      bool const is_own = cell == scope % 11;
      if (is_own || (cell >= 11 && rng.below(3) == 0))
        ranges.push_back({cell * 60, cell * 60 + (is_own ? 59u : 60u)});
    }
    for (SlotRange const& range : random_scope(rng, world)) {
      if (range.begin >= world.segments[1].first_slot) ranges.push_back(range);
    }
    batch.see(std::move(ranges));
  }
  for (int q = 0; q < 300; ++q)
    batch.ask(rng.below(40u), random_query(rng, world), 1 + rng.below(30u));
  {
    PlaneOf const forced("rows");
    check_batch(world, *table, batch);
  }
  PlaneOf const forced("int8");
  batch.tuning = DenseTuning{128, 2, 2};
  check_batch(world, *table, batch);
}

// More than go through the device at a time.
TEST(device_serves_a_batch_in_pieces) {
  skip_under_thread_sanitizer();
  Rng rng(7);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, kDim, {20});
  WorldBatch batch;
  batch.see(world.everything());
  for (int q = 0; q < 1100; ++q) batch.ask(0, random_query(rng, world), 3);
  check_batch(world, *world.upload(), batch);
}

}  // namespace
}  // namespace hyrecall::testing
