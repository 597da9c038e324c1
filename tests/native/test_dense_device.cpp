// The dense pass on the emulated device against a full sort, bit for bit.
#include <cstdlib>
#include <cstring>

#include "native/device_world.hpp"

namespace hyrecall::testing {
namespace {

bool passes_all(std::uint32_t, std::uint32_t, std::uint32_t) {
  return true;
}

bool same_rows(std::vector<device::FoundRow> const& a, std::vector<device::FoundRow> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i].score, &b[i].score, sizeof(float)) != 0 || a[i].slot != b[i].slot)
      return false;
  }
  return true;
}

void check_batch(DeviceWorld const& world, device::DeviceTable const& table,
                 WorldBatch const& batch) {
  device::DenseFound const found = device::search(table, batch.search());
  CHECK(found.is_sorted);
  for (std::size_t q = 0; q < batch.group_of.size(); ++q) {
    auto const wanted = expected_rows(world, batch, q, passes_all);
    CHECK(same_rows(found.rows[q], wanted));
  }
}

// Rows of several kinds: Gaussian, near copies of one another, equal, zero, with outliers.
DeviceWorld random_world(Rng& rng, RowType type, std::uint32_t dim,
                         std::vector<std::uint32_t> sizes) {
  DeviceWorld world{type, dim, {}};
  Seq seq = 0;
  std::vector<float> const base = random_vector(rng, dim);
  for (std::uint32_t size : sizes) {
    WorldSegment segment;
    for (std::uint32_t i = 0; i < size; ++i) {
      std::vector<float> row = random_vector(rng, dim);
      std::uint64_t const kind = rng.below(std::uint64_t{10});
      for (std::uint32_t d = 0; d < dim; ++d) {
        if (kind == 0) row[d] = base[d] + row[d] * 1e-4f;
        if (kind == 1) row[d] = base[d];
        if (kind == 2 && d % 7 == 0) row[d] *= 50.0f;
        if (kind == 3) row[d] = 0.0f;
      }
      // Numbers neither rise nor fall with the rows.
      seq += 1;
      world.add_row(segment, row, seq * 7919 % 100'003);
    }
    if (rng.below(2) == 0) {
      segment.live.assign(2 * ((size + kTileRows - 1) / kTileRows), ~std::uint64_t{0});
      for (std::uint32_t i = 0; i < size; ++i) {
        if (rng.below(5) == 0) segment.live[i / 64] &= ~(std::uint64_t{1} << i % 64);
      }
      // Bits past the end mean nothing.
    }
    world.segments.push_back(std::move(segment));
  }
  world.place();
  return world;
}

std::vector<SlotRange> random_scope(Rng& rng, DeviceWorld const& world) {
  std::vector<SlotRange> out;
  for (WorldSegment const& segment : world.segments) {
    std::uint32_t at = 0;
    while (at < segment.n_rows && rng.below(4) != 0) {
      std::uint32_t const begin = at + rng.below(segment.n_rows - at);
      std::uint32_t const end = begin + 1 + rng.below(segment.n_rows - begin);
      out.push_back({segment.first_slot + begin, segment.first_slot + end});
      at = end + 1;
    }
  }
  return out;
}

void check_random(Rng& rng, RowType type, std::uint32_t dim, std::vector<std::uint32_t> sizes,
                  std::size_t n_queries, std::uint32_t most_depth) {
  DeviceWorld const world = random_world(rng, type, dim, std::move(sizes));
  auto const table = world.upload();
  WorldBatch batch;
  std::uint32_t const n_scopes = 1 + rng.below(6u);
  for (std::uint32_t s = 0; s < n_scopes; ++s) {
    batch.scopes.push_back(s == 0 ? std::vector<SlotRange>{} : random_scope(rng, world));
    if (s == 0) {
      for (WorldSegment const& one : world.segments) {
        if (one.n_rows > 0)
          batch.scopes[0].push_back({one.first_slot, one.first_slot + one.n_rows});
      }
    }
    batch.group_scopes.push_back(s);
    batch.group_filters.push_back(kNone32);
  }
  for (std::size_t q = 0; q < n_queries; ++q) {
    std::vector<float> query = random_vector(rng, dim);
    WorldSegment const& some = world.segments[rng.below(world.segments.size())];
    if (rng.below(3) == 0 && some.n_rows > 0) {  // a row as a query
      float const* const at = some.values.data() + std::size_t{rng.below(some.n_rows)} * dim;
      query.assign(at, at + dim);
    }
    float floor = -std::numeric_limits<float>::infinity();
    if (rng.below(4) == 0) floor = static_cast<float>(rng.unit() * 0.5);
    std::uint32_t const group =
        rng.below(20) == 0 ? kNone32 : rng.below(static_cast<std::uint32_t>(batch.scopes.size()));
    batch.ask(group, query, rng.below(most_depth + 1), floor, rng.below(2) == 0);
  }
  check_batch(world, *table, batch);
}

TEST(device_finds_what_a_full_sort_finds) {
  Rng rng(20261122);
  for (char const* plane : {"int8", "rows"}) {
    setenv("HYRECALL_FRONT_PLANE", plane, 1);
    for (RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      check_random(rng, type, 1, {40}, 3, 10);
      check_random(rng, type, 31, {200, 1, 300}, 9, 20);
      check_random(rng, type, 33, {130}, 40, 200);
      check_random(rng, type, 64, {0, 513}, 70, 5);
      check_random(rng, type, 257, {129, 128}, 5, 30);
    }
  }
  unsetenv("HYRECALL_FRONT_PLANE");
}

}  // namespace
}  // namespace hyrecall::testing
