// The dense pass with filters of every kind over columns of every kind.
#include <array>

#include "native/dense_cases.hpp"
#include "native/random_filters.hpp"

namespace hyrecall::testing {
namespace {

AttributeArrays arrays_of(AttributeColumn const& column) {
  return {{column.codes.data(), column.codes.size()},
          {column.offsets.data(), column.offsets.size()},
          {column.valid.data(), column.valid.size()},
          {column.zones().data(), column.zones().size()}};
}

// Of each segment: its attributes, and the filters bound to them.
struct Filtered {
  std::vector<std::vector<AttributeColumn>> columns;
  std::vector<std::vector<AttributeArrays>> arrays;
  std::vector<std::vector<BoundFilter>> bound;  // [filter][segment]

  Filtered(Rng& rng, DeviceWorld const& world) {
    for (WorldSegment const& segment : world.segments) {
      columns.push_back(random_columns(rng, segment.n_rows));
      arrays.emplace_back();
      for (AttributeColumn const& column : columns.back())
        arrays.back().push_back(arrays_of(column));
    }
  }

  // Gives the filter's number.
  std::uint32_t add(DeviceWorld const& world, FilterProgram const& filter, WorldBatch& batch) {
    bound.emplace_back();
    for (std::size_t s = 0; s < columns.size(); ++s) {
      std::vector<AttributeColumn const*> pointers;
      for (AttributeColumn const& column : columns[s]) pointers.push_back(&column);
      bound.back().emplace_back(filter, pointers, world.segments[s].n_rows);
      TileProgram program = flatten(bound.back().back());
      auto const first = static_cast<std::int64_t>(batch.codes.size());
      batch.filters.push_back({static_cast<std::uint32_t>(batch.tests.size()),
                               static_cast<std::uint32_t>(program.tests.size())});
      for (TileTest& test : program.tests) {
        if (test.kind == TileTestKind::kAnyOf) test.low += first;
      }
      batch.tests.insert(batch.tests.end(), program.tests.begin(), program.tests.end());
      batch.codes.insert(batch.codes.end(), program.codes.begin(), program.codes.end());
    }
    return static_cast<std::uint32_t>(bound.size() - 1);
  }

  bool passes(std::uint32_t filter, std::uint32_t segment, std::uint32_t row) const {
    return filter == kNone32 ||
           bound[filter][segment].evaluate(row / kTileRows).test(row % kTileRows);
  }
};

TEST(device_keeps_what_filters_keep) {
  skip_under_thread_sanitizer();
  Rng rng(11);
  std::array<std::size_t, 6> n_kinds{};
  std::size_t n_found = 0;
  for (int round = 0; round < 14; ++round) {
    PlaneOf const forced(round % 4 < 2 ? "int8" : "rows");
    DeviceWorld const world =
        random_world(rng, round % 2 == 0 ? RowType::kFloat16 : RowType::kFloat32, 9,
                     {rng.below(700u), 0, rng.below(200u), 1 + rng.below(300u)});
    Filtered filtered(rng, world);
    WorldBatch batch;
    if (round % 3 == 0) batch.tuning = kTight;
    for (int i = 0; i < 8; ++i) {
      std::uint32_t const filter =
          i == 0 ? kNone32 : filtered.add(world, random_filter(rng, rng.below(5)), batch);
      std::uint32_t const group =
          batch.see(i % 2 == 0 ? world.everything() : random_scope(rng, world), filter);
      // The same scope with another filter: one cohort, two groups.
      std::uint32_t const other = filtered.add(world, random_filter(rng, rng.below(3)), batch);
      batch.group_scopes.push_back(batch.group_scopes[group]);
      batch.group_filters.push_back(other);
    }
    auto const n_groups = static_cast<std::uint32_t>(batch.group_scopes.size());
    for (int q = 0; q < 16; ++q)
      batch.ask(rng.below(n_groups), random_query(rng, world), 1 + rng.below(40u));
    auto const table = world.upload(filtered.arrays);
    check_batch(world, *table, batch,
                [&](std::uint32_t group, std::uint32_t segment, std::uint32_t row) {
                  return filtered.passes(batch.group_filters[group], segment, row);
                });
    for (TileTest const& test : batch.tests) n_kinds[static_cast<std::size_t>(test.kind)] += 1;
    for (auto const& rows : found_of(*table, batch.search()).rows) n_found += rows.size();
  }
  for (std::size_t n : n_kinds) CHECK(n > 50);
  CHECK(n_found > 1000);
}

}  // namespace
}  // namespace hyrecall::testing
