// Rows of many vectors on the emulated device, against a full sort of scores by their definition.
#include <utility>

#include "device/dense_pass.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

// The vectors are the rows of `vectors`; its slots are not used.
struct ManyWorld {
  DeviceWorld vectors;
  struct Rows {
    std::vector<std::uint32_t> begins{0};
    std::vector<Seq> seqs;
    std::vector<std::uint64_t> live;  // empty: all live
    std::uint32_t first_slot = 0;

    std::uint32_t size() const { return static_cast<std::uint32_t>(seqs.size()); }
  };
  std::vector<Rows> segments;

  std::shared_ptr<device::DeviceTable const> upload(std::string const& folder) const {
    std::vector<std::shared_ptr<device::DeviceView const>> views;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      WorldSegment const& one = vectors.segments[s];
      device::ColumnArrays column{vectors.type, vectors.dim, one.rows.data(),
                                  one.inverse_norms.data()};
      column.begins = segments[s].begins;
      views.push_back(std::make_shared<device::DeviceView>(
          std::make_shared<device::DeviceSegment>(folder, 0, segments[s].seqs,
                                                  std::span<AttributeArrays const>{},
                                                  std::span(&column, 1)),
          segments[s].live));
    }
    return std::make_shared<device::DeviceTable>(std::move(views), 0, vectors.type, vectors.dim);
  }
};

// What is without an error in the int8 plane.
enum class Exact { kNothing, kFirstVectors, kRows, kAll };

struct ManyCase {
  RowType type = RowType::kFloat32;
  std::uint32_t dim = 16;
  std::vector<std::uint32_t> sizes;
  std::uint32_t most_vectors = 5;  // of a row
  std::uint32_t most_asked = 5;    // of a query
  std::size_t n_queries = 4;
  std::uint32_t most_depth = 12;
  std::string folder = HYRECALL_EMULATED_FOLDER;
  Exact exact =
      Exact::kNothing;       // the first vector of each row, and queries; rows; rows and queries
  bool is_opposite = false;  // queries and rows: all cosines are below 0
};

// Rows of none to many vectors, some missing; some near copies of one another, some dead.
ManyWorld random_many(Rng& rng, ManyCase const& chosen) {
  ManyWorld world{{chosen.type, chosen.dim, {}}, {}};
  Seq seq = 0;
  std::uint32_t slot = 0;
  std::vector<float> const base = random_vector(rng, chosen.dim);
  for (std::uint32_t const size : chosen.sizes) {
    ManyWorld::Rows rows;
    WorldSegment& own = world.vectors.segments.emplace_back();
    for (std::uint32_t i = 0; i < size; ++i) {
      bool const is_near = chosen.exact == Exact::kNothing && rng.below(3) == 0;
      for (std::uint32_t left = rng.below(chosen.most_vectors + 1); left > 0; --left) {
        std::vector<float> vector = random_vector(rng, chosen.dim);
        bool const is_missing = rng.below(9) == 0;
        bool const is_first = own.n_rows == rows.begins.back();
        if (chosen.exact >= Exact::kRows || (chosen.exact == Exact::kFirstVectors && is_first))
          vector = exact_vector(rng, chosen.dim);
        for (std::uint32_t d = 0; d < chosen.dim; ++d) {
          if (chosen.is_opposite) vector[d] = 1.0f + vector[d] * 0.1f;
          if (is_near && !chosen.is_opposite) vector[d] = base[d] + vector[d] * 0.01f;
          if (is_missing) vector[d] = 0.0f;
        }
        world.vectors.add_row(own, vector, 0);
      }
      rows.begins.push_back(own.n_rows);
      rows.seqs.push_back(scattered_seq(++seq));
    }
    if (rng.below(2) == 0) {
      rows.live.assign(2 * ((size + kTileRows - 1) / kTileRows), ~std::uint64_t{0});
      for (std::uint32_t i = 0; i < size; ++i)
        if (rng.below(4) == 0) rows.live[i / 64] &= ~(std::uint64_t{1} << i % 64);
    }
    rows.first_slot = slot;
    slot += (size + kTileRows - 1) / kTileRows * kTileRows;
    world.segments.push_back(std::move(rows));
  }
  return world;
}

// Nothing of a row without a vector.
std::optional<float> score_of(WorldSegment const& segment, std::uint32_t begin, std::uint32_t end,
                              std::span<float const> queries, std::uint32_t dim) {
  std::vector<float> greatest;
  for (std::size_t q = 0; q < queries.size() / dim; ++q) {
    float const* const at = queries.data() + q * dim;
    float const inverse =
        inverse_norm(row_norm(dim, [at](std::size_t i) { return double{at[i]}; }));
    std::optional<float> most;
    for (std::uint32_t v = begin; v < end; ++v) {
      float const norm = segment.inverse_norms[v];
      if (norm == 0.0f) continue;
      float const one = cosine(canonical_dot(segment.values.data() + std::size_t{v} * dim, at, dim),
                               norm, inverse);
      if (!most || one > *most) most = one;
    }
    if (!most) return std::nullopt;
    greatest.push_back(*most);
  }
  return max_sim(greatest.data(), greatest.size());
}

std::vector<FoundRow> expected_many(ManyWorld const& world, WorldBatch const& batch,
                                    std::size_t query, std::span<float const> vectors) {
  std::vector<FoundRow> out;
  for (std::size_t s = 0; s < world.segments.size(); ++s) {
    ManyWorld::Rows const& rows = world.segments[s];
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      std::uint32_t const slot = rows.first_slot + row;
      bool in_scope = false;
      for (SlotRange const& range : batch.scopes[batch.group_scopes[batch.group_of[query]]])
        in_scope |= range.begin <= slot && slot < range.end;
      bool const lives = rows.live.empty() || (rows.live[row / 64] >> row % 64 & 1) != 0;
      if (!in_scope || !lives) continue;
      auto const score = score_of(world.vectors.segments[s], rows.begins[row], rows.begins[row + 1],
                                  vectors, world.vectors.dim);
      float const floor = batch.floors[query];
      if (!score || (batch.strict[query] != 0 ? *score <= floor : *score < floor)) continue;
      out.push_back({*score, slot, rows.seqs[row]});
    }
  }
  std::sort(out.begin(), out.end(), [](FoundRow const& a, FoundRow const& b) {
    return a.score != b.score ? a.score > b.score : a.seq < b.seq;
  });
  if (out.size() > batch.depths[query]) out.resize(batch.depths[query]);
  return out;
}

SlotRanges some_rows(Rng& rng, ManyWorld const& world) {
  SlotRanges out;
  for (ManyWorld::Rows const& rows : world.segments) {
    if (rows.size() == 0 || rng.below(4) == 0) continue;
    std::uint32_t const begin = rng.below(rows.size());
    std::uint32_t const end = begin + 1 + rng.below(rows.size() - begin);
    out.push_back({rows.first_slot + begin, rows.first_slot + end});
  }
  return out;
}

void check_many(Rng& rng, ManyCase const& chosen) {
  ManyWorld const world = random_many(rng, chosen);
  WorldBatch batch;
  SlotRanges all;
  for (ManyWorld::Rows const& rows : world.segments)
    if (rows.size() > 0) all.push_back({rows.first_slot, rows.first_slot + rows.size()});
  batch.see(all);
  batch.see(some_rows(rng, world));
  std::vector<std::uint32_t> begins{0};
  auto const vectors_of = [&](std::size_t q) {
    std::size_t const dim = chosen.dim;
    return std::span<float const>(batch.queries)
        .subspan(begins[q] * dim, (begins[q + 1] - begins[q]) * dim);
  };
  for (std::size_t q = 0; q < chosen.n_queries; ++q) {
    std::vector<float> vectors;
    std::uint32_t const n = 1 + rng.below(chosen.most_asked);
    for (std::uint32_t i = 0; i < n; ++i) {
      bool const is_exact = chosen.exact == Exact::kFirstVectors || chosen.exact == Exact::kAll;
      std::vector<float> one = (is_exact ? exact_vector : random_vector)(rng, chosen.dim);
      for (float& value : one)
        if (chosen.is_opposite) value = -1.0f + value * 0.1f;
      vectors.insert(vectors.end(), one.begin(), one.end());
    }
    begins.push_back(begins.back() + n);
    batch.ask(rng.below(3u) == 0 ? 1 : 0, vectors, rng.below(chosen.most_depth + 1));
    if (rng.below(2) == 0) continue;
    // A row's own score as the floor.
    auto const rows = expected_many(world, batch, q, vectors_of(q));
    if (!rows.empty()) batch.floors[q] = rows[rng.below(rows.size())].score;
    batch.strict[q] = rng.below(2) == 0 ? 1 : 0;
  }
  auto const table = world.upload(chosen.folder);
  device::DenseSearch search = batch.search();
  search.queries = {batch.queries.data(), chosen.dim};
  search.vector_begins = begins;
  Found const found = found_of(*table, search);
  for (std::size_t q = 0; q < chosen.n_queries; ++q)
    CHECK(same_rows(found.rows[q], expected_many(world, batch, q, vectors_of(q))));
}

// Of every kind: panels of one chunk and more, more chunks than are staged, several panels a query,
// rows of several steps.
void check_every_kind(Rng& rng, std::string const& folder) {
  check_many(rng, {RowType::kFloat32, 7, {90}, 4, 3, 3, 10, folder});
  check_many(rng, {RowType::kBFloat16, 40, {130, 0, 150}, 6, 9, 4, 30, folder});
  check_many(rng, {RowType::kFloat16, 130, {40}, 40, 34, 2, 8, folder});
  check_many(rng, {RowType::kFloat32, 33, {20}, 70, 70, 3, 5, folder});
  check_many(rng, {RowType::kFloat32, 128 * 17, {9}, 3, 3, 2, 5, folder});
  check_many(rng, {RowType::kFloat32, 4, {300}, 2, 2, 2, 80, folder});
  check_many(rng, {RowType::kFloat32, 12, {500}, 2, 1, 6, 120, folder, Exact::kFirstVectors});
  check_many(rng, {RowType::kFloat32, 9, {500}, 2, 2, 6, 120, folder, Exact::kRows});
  check_many(rng, {RowType::kFloat32, 10, {120}, 3, 60, 3, 12, folder, Exact::kAll});
  check_many(rng, {RowType::kFloat32, 6, {90}, 17, 2, 4, 20, folder, Exact::kNothing, true});
}

bool is_caught(char const* name) {
  std::string const folder = broken_folder(name);
  return status_of_child([&] {
           for (std::uint64_t seed = 0; seed < 3; ++seed) {
             SeedOf const order(seed, folder);
             Rng rng(seed);
             try {
               check_every_kind(rng, folder);
             } catch (std::exception const&) {
               return true;
             }
           }
           return false;
         }) != 0;
}

TEST(device_finds_rows_of_many_vectors_as_a_full_sort) {
  skip_under_thread_sanitizer();
  for (std::uint64_t seed = 0; seed < cases(3u); ++seed) {
    SeedOf const order(seed);
    Rng rng(7 + seed);
    check_every_kind(rng, HYRECALL_EMULATED_FOLDER);
  }
  Rng rng(11);
  check_many(rng, {RowType::kFloat32, 5, {60}, 2, 2, 140, 3});  // two CTAs share each query
}

// A pass is as large as its places: a scope of scattered cells has few rows in many tiles.
TEST(device_pass_of_many_vectors_is_as_large_as_the_tiles_of_a_scope) {
  WorldBatch batch;
  batch.see({});
  device::DenseSearch const nothing = batch.search();
  CHECK_EQ(device::ScopeSizes(nothing, kTileRows).most_places(), kTileRows);
  batch.see({{0, 100}});
  batch.see({{5, 6}, {200, 201}, {210, 212}, {2 * kTileRows, 2 * kTileRows + 1}});
  device::DenseSearch const search = batch.search();
  CHECK_EQ(device::ScopeSizes(search, kTileRows).most_places(), 3 * kTileRows);
}

TEST(device_planted_bugs_in_rows_of_many_vectors_are_caught) {
  once_for_both_kernels();
  std::string missed;
  for (char const* name :
       {"residual_of_the_first_vector", "constants_of_many_left_out", "vectors_past_the_end_count",
        "mask_of_many_skipped", "second_panel_replaces_the_first", "panel_not_waited_for",
        "panel_overwritten_too_early", "query_vectors_not_waited_for", "missing_vectors_count"})
    if (!is_left_out(name) && !is_caught(name)) missed += std::string(" ") + name;
  CHECK_EQ(missed, "");
}

}  // namespace
}  // namespace hyrecall::testing
