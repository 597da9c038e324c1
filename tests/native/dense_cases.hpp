// Random columns and batches for the dense pass, and the comparison with a full sort, bit for bit.
#pragma once

#include <cstring>
#include <string_view>

#include "native/device_world.hpp"

namespace hyrecall::testing {

// int8: the quantised plane. rows: the rows themselves, where they have 16 bits.
class PlaneOf {
 public:
  explicit PlaneOf(std::string_view plane) {
    chosen_first_pass = plane == "int8" ? FirstPassChoice::kInt8 : FirstPassChoice::kRows;
  }
  ~PlaneOf() { chosen_first_pass = FirstPassChoice::kAny; }
  PlaneOf(PlaneOf const&) = delete;
  PlaneOf& operator=(PlaneOf const&) = delete;
};

// For tests of one thread that take minutes there; AddressSanitizer runs them.
inline void skip_under_thread_sanitizer() {
#if defined(__SANITIZE_THREAD__)
  throw Skip("a single thread, for too long");
#endif
}

inline bool same_rows(std::vector<FoundRow> const& a, std::vector<FoundRow> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i].score, &b[i].score, sizeof(float)) != 0 || a[i].slot != b[i].slot ||
        a[i].seq != b[i].seq)
      return false;
  }
  return true;
}

// passes(group, segment, row) is what the groups' filters say.
template <typename Passes>
void check_batch(DeviceWorld const& world, device::DeviceTable const& table,
                 WorldBatch const& batch, Passes&& passes) {
  Found found = found_of(table, batch.search());
  for (std::size_t q = 0; q < batch.group_of.size(); ++q) {
    std::vector<FoundRow>& rows = found.rows[q];
    if (!found.is_sorted) {
      std::sort(rows.begin(), rows.end(), [](FoundRow const& a, FoundRow const& b) {
        return a.score != b.score ? a.score > b.score : a.seq < b.seq;
      });
    }
    CHECK(same_rows(rows, expected_rows(world, batch, q, passes)));
  }
}
inline void check_batch(DeviceWorld const& world, device::DeviceTable const& table,
                        WorldBatch const& batch) {
  check_batch(world, table, batch,
              [](std::uint32_t, std::uint32_t, std::uint32_t) { return true; });
}

// Numbers neither rise nor fall with the rows.
inline Seq scattered_seq(Seq number) {
  return number * 7919 % 100'003;
}

inline void kill(WorldSegment& segment, std::uint32_t row) {
  if (segment.live.empty())
    segment.live.assign(2 * ((segment.n_rows + kTileRows - 1) / kTileRows), ~std::uint64_t{0});
  segment.live[row / 64] &= ~(std::uint64_t{1} << row % 64);
}

// A vector of -1, 0 and 1. The int8 plane holds it but for float32 roundings: only the other side's
// error is left.
inline std::vector<float> exact_vector(Rng& rng, std::uint32_t dim) {
  std::vector<float> out(dim);
  for (float& value : out) value = static_cast<float>(rng.below(3)) - 1.0f;
  out[rng.below(dim)] = 1.0f;
  return out;
}

// Rows of several kinds: Gaussian, near copies of one another, equal, exact, with outliers; in
// every other segment some zero, in every other one in five dead.
inline DeviceWorld random_world(Rng& rng, RowType type, std::uint32_t dim,
                                std::vector<std::uint32_t> const& sizes) {
  DeviceWorld world{type, dim, {}};
  Seq seq = 0;
  std::vector<float> const base = random_vector(rng, dim);
  for (std::uint32_t size : sizes) {
    WorldSegment segment;
    bool const has_zeros = rng.below(2) == 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      std::vector<float> row = random_vector(rng, dim);
      std::uint64_t const kind = rng.below(std::uint64_t{10});
      for (std::uint32_t d = 0; d < dim; ++d) {
        if (kind == 0) row[d] = base[d] + row[d] * 1e-4f;
        if (kind == 1) row[d] = base[d];
        if (kind == 2 && d % 7 == 0) row[d] *= 50.0f;
        if (kind == 3 && has_zeros) row[d] = 0.0f;
        if (kind == 4) row[d] = base[d] + row[d] * 0.03f;
      }
      if (kind == 5) row = exact_vector(rng, dim);
      world.add_row(segment, row, scattered_seq(++seq));
    }
    // Bits past the end mean nothing.
    bool const has_dead = rng.below(2) == 0;
    for (std::uint32_t i = 0; has_dead && i < size; ++i) {
      if (rng.below(5) == 0) kill(segment, i);
    }
    world.segments.push_back(std::move(segment));
  }
  world.place();
  return world;
}

inline DeviceWorld half_exact_world(Rng& rng, RowType type, std::uint32_t dim,
                                    std::vector<std::uint32_t> const& sizes) {
  DeviceWorld world{type, dim, {}};
  Seq seq = 0;
  for (std::uint32_t size : sizes) {
    WorldSegment segment;
    for (std::uint32_t i = 0; i < size; ++i) {
      bool const is_exact = rng.below(2) == 0;
      world.add_row(segment, is_exact ? exact_vector(rng, dim) : random_vector(rng, dim),
                    scattered_seq(++seq));
    }
    world.segments.push_back(std::move(segment));
  }
  world.place();
  return world;
}

// Of every other tile one row in 16 is near a vector and all others are far, so that a sample of
// these tiles holds all of the best, each as the best of its 16.
inline DeviceWorld misleading_world(Rng& rng, RowType type, std::uint32_t dim,
                                    std::vector<std::uint32_t> const& sizes) {
  DeviceWorld world{type, dim, {}};
  Seq seq = 0;
  std::vector<float> const base = random_vector(rng, dim);
  for (std::uint32_t size : sizes) {
    WorldSegment segment;
    for (std::uint32_t i = 0; i < size; ++i) {
      std::vector<float> row = random_vector(rng, dim);
      bool const is_near = i / kTileRows % 2 == 0 && i % kSampleRows == 0;
      for (std::uint32_t d = 0; d < dim; ++d)
        row[d] = is_near ? base[d] + row[d] * 0.8f : row[d] * 0.5f - base[d];
      world.add_row(segment, row, scattered_seq(++seq));
    }
    world.segments.push_back(std::move(segment));
  }
  world.place();
  return world;
}

inline SlotRanges random_scope(Rng& rng, DeviceWorld const& world) {
  SlotRanges out;
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

// Gaussian, a row, or exact.
inline std::vector<float> random_query(Rng& rng, DeviceWorld const& world) {
  if (rng.below(5) == 0) return exact_vector(rng, world.dim);
  std::vector<float> query = random_vector(rng, world.dim);
  WorldSegment const& some = world.segments[rng.below(world.segments.size())];
  if (rng.below(2) == 0 && some.n_rows > 0) {
    float const* const at = some.values.data() + std::size_t{rng.below(some.n_rows)} * world.dim;
    query.assign(at, at + world.dim);
  }
  return query;
}

struct RandomCase {
  RowType type = RowType::kFloat32;
  std::uint32_t dim = 16;
  std::vector<std::uint32_t> sizes;
  std::size_t n_queries = 5;
  std::uint32_t most_depth = 10;
  std::optional<DenseTuning> tuning = std::nullopt;
  bool is_half_exact = false;  // rows: the others Gaussian
  bool is_misleading = false;
  bool is_split = false;  // scopes: a tile each, so that each query has a panel to itself
  std::string folder = HYRECALL_EMULATED_FOLDER;
};

// Few candidates, a sample of every other tile.
inline constexpr DenseTuning kTight{64, 1, 2};

inline void check_random(Rng& rng, RandomCase const& chosen) {
  skip_under_thread_sanitizer();
  using Make = decltype(&half_exact_world);  // native/world.hpp has another random_world
  Make const make = chosen.is_misleading   ? misleading_world
                    : chosen.is_half_exact ? half_exact_world
                                           : static_cast<Make>(random_world);
  DeviceWorld const world = make(rng, chosen.type, chosen.dim, chosen.sizes);
  auto const table = world.upload({}, chosen.folder);
  WorldBatch batch;
  batch.tuning = chosen.tuning;
  batch.see(world.everything());
  for (std::uint32_t n = rng.below(6u); n > 0 && !chosen.is_split; --n)
    batch.see(random_scope(rng, world));
  for (WorldSegment const& segment : world.segments) {
    for (std::uint32_t at = 0; chosen.is_split && at + kTileRows <= segment.n_rows; at += kTileRows)
      batch.see({{segment.first_slot + at, segment.first_slot + at + kTileRows}});
  }
  for (std::size_t q = 0; q < chosen.n_queries; ++q) {
    std::uint32_t const first = chosen.is_split ? 1 : 0;  // the first scope is everything
    std::uint32_t const n_scopes = static_cast<std::uint32_t>(batch.scopes.size()) - first;
    std::uint32_t const group = rng.below(20) == 0 ? kNone32 : first + rng.below(n_scopes);
    batch.ask(group, random_query(rng, world), rng.below(chosen.most_depth + 1));
    batch.strict[q] = rng.below(2) == 0 ? 1 : 0;
    if (rng.below(2) == 0) continue;
    // A row's own score as the floor: the hardest to keep, and to leave out.
    auto const rows = expected_rows(
        world, batch, q, [](std::uint32_t, std::uint32_t, std::uint32_t) { return true; });
    bool const is_last = rng.below(2) == 0;
    batch.floors[q] = rows.empty() ? static_cast<float>(rng.unit())
                      : is_last    ? rows.back().score
                                   : rows[rng.below(rows.size())].score;
  }
  check_batch(world, *table, batch);
}

}  // namespace hyrecall::testing
