// A small dense column on the emulated device, and the same column by its definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"
#include "device/dense_device.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {

struct WorldSegment {
  std::uint32_t n_rows = 0;
  std::vector<Seq> seqs;
  std::vector<std::uint8_t> rows;    // [n_rows, dim] of the type
  std::vector<float> values;         // [n_rows, dim] the same, widened
  std::vector<float> inverse_norms;  // 0: no vector
  std::vector<std::uint64_t> live;   // empty: all live
  std::uint32_t first_slot = 0;
};

struct DeviceWorld {
  RowType type = RowType::kFloat32;
  std::uint32_t dim = 0;
  std::vector<WorldSegment> segments;

  void add_row(WorldSegment& to, std::vector<float> const& values, Seq seq) const {
    to.n_rows += 1;
    to.seqs.push_back(seq);
    for (float value : values) {
      std::uint16_t bits = 0;
      if (type == RowType::kFloat16) bits = float16_bits(value);
      if (type == RowType::kBFloat16) bits = bfloat16_bits(value);
      float const kept = type == RowType::kFloat16    ? float16_value(bits)
                         : type == RowType::kBFloat16 ? bfloat16_value(bits)
                                                      : value;
      to.values.push_back(kept);
      auto const* const from = type == RowType::kFloat32
                                   ? reinterpret_cast<std::uint8_t const*>(&kept)
                                   : reinterpret_cast<std::uint8_t const*>(&bits);
      to.rows.insert(to.rows.end(), from, from + item_bytes(type));
    }
    float const* const at = to.values.data() + (to.n_rows - 1) * std::size_t{dim};
    to.inverse_norms.push_back(
        inverse_norm(row_norm(dim, [at](std::size_t i) { return static_cast<double>(at[i]); })));
  }

  // Every row of every segment.
  SlotRanges everything() const {
    SlotRanges out;
    for (WorldSegment const& one : segments) {
      if (one.n_rows > 0) out.push_back({one.first_slot, one.first_slot + one.n_rows});
    }
    return out;
  }
  Seq seq_of(std::uint32_t slot) const {
    for (WorldSegment const& one : segments) {
      if (slot - one.first_slot < one.n_rows) return one.seqs[slot - one.first_slot];
    }
    fail(__FILE__, __LINE__, "no row at slot " + std::to_string(slot));
  }

  // Numbers the slots; call it when all rows are there.
  void place() {
    std::uint32_t slot = 0;
    for (WorldSegment& one : segments) {
      one.first_slot = slot;
      slot += (one.n_rows + kTileRows - 1) / kTileRows * kTileRows;
    }
  }

  // attributes: [segment][column].
  std::shared_ptr<device::DeviceTable const> upload(
      std::vector<std::vector<AttributeArrays>> const& attributes = {},
      std::string const& folder = HYRECALL_EMULATED_FOLDER) const {
    std::vector<std::shared_ptr<device::DeviceView const>> views;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      WorldSegment const& one = segments[s];
      device::ColumnArrays const column{type, dim, one.rows.data(), one.inverse_norms.data()};
      std::span<AttributeArrays const> own;
      if (!attributes.empty()) own = attributes[s];
      views.push_back(std::make_shared<device::DeviceView>(
          std::make_shared<device::DeviceSegment>(folder, 0, one.seqs, own, std::span(&column, 1)),
          one.live));
    }
    return std::make_shared<device::DeviceTable>(std::move(views), 0, type, dim);
  }
};

// What the first pass of every batch reads: see PlaneOf.
inline FirstPassChoice chosen_first_pass = FirstPassChoice::kAny;

// A batch with its own memory.
struct WorldBatch {
  std::vector<SlotRanges> scopes;
  std::vector<std::uint32_t> group_scopes;
  std::vector<std::uint32_t> group_filters;
  std::vector<std::uint32_t> group_of;
  std::vector<SegmentFilter> filters;
  std::vector<TileTest> tests;
  std::vector<std::int64_t> codes;
  std::vector<float> queries;
  std::vector<float> floors;
  std::vector<std::uint8_t> strict;
  std::vector<std::uint32_t> depths;
  std::optional<DenseTuning> tuning;

  // A group of its own; gives its number.
  std::uint32_t see(SlotRanges scope, std::uint32_t filter = kNone32) {
    scopes.push_back(std::move(scope));
    group_scopes.push_back(static_cast<std::uint32_t>(scopes.size() - 1));
    group_filters.push_back(filter);
    return static_cast<std::uint32_t>(group_scopes.size() - 1);
  }
  void ask(std::uint32_t group, std::vector<float> const& query, std::uint32_t depth,
           float floor = -std::numeric_limits<float>::infinity(), bool is_strict = false) {
    group_of.push_back(group);
    queries.insert(queries.end(), query.begin(), query.end());
    floors.push_back(floor);
    strict.push_back(is_strict ? 1 : 0);
    depths.push_back(depth);
  }
  std::size_t stride() const { return group_of.empty() ? 0 : queries.size() / group_of.size(); }
  device::DenseSearch search() const {
    return {scopes,  group_scopes, group_filters, group_of,
            filters, tests,        codes,         {queries.data(), stride()},
            floors,  strict,       depths,        {chosen_first_pass, {}, tuning}};
  }
};

struct FoundRow {
  float score;
  std::uint32_t slot;
  Seq seq;
};

// What a search hands over, by query.
struct Found {
  std::vector<std::vector<FoundRow>> rows;
  bool is_sorted = true;
};
inline Found found_of(device::DeviceTable const& table, device::DenseSearch const& batch) {
  Found out;
  out.rows.resize(batch.group_of.size());
  std::vector<bool> is_taken(out.rows.size());
  device::search(table, batch, [&](std::span<device::FoundRows const> all) {
    for (device::FoundRows const& found : all) {
      CHECK(!is_taken.at(found.query));
      is_taken[found.query] = true;
      CHECK_EQ(found.slots.size(), found.scores.size());
      CHECK_EQ(found.seqs.size(), found.scores.size());
      for (std::size_t i = 0; i < found.scores.size(); ++i)
        out.rows[found.query].push_back({found.scores[i], found.slots[i], found.seqs[i]});
      out.is_sorted = out.is_sorted && found.is_sorted;
    }
  });
  for (std::size_t q = 0; q < is_taken.size(); ++q)
    CHECK_EQ(is_taken[q], batch.group_of[q] != kNone32 && batch.depths[q] > 0);
  return out;
}

inline float canonical_dot(float const* row, float const* query, std::uint32_t dim) {
  float lanes[kLanes] = {};
  for (std::uint32_t i = 0; i < dim; ++i)
    lanes[i % kLanes] = std::fma(row[i], query[i], lanes[i % kLanes]);
  return fold_lanes(lanes);
}

// What the device must find: a full sort. passes(segment, row) is the group's filter.
template <typename Passes>
std::vector<FoundRow> expected_rows(DeviceWorld const& world, WorldBatch const& batch,
                                    std::size_t query, Passes&& passes) {
  struct Ranked {
    float score;
    Seq seq;
    std::uint32_t slot;
  };
  std::vector<Ranked> all;
  float const* const q = batch.queries.data() + query * world.dim;
  float const inverse =
      inverse_norm(row_norm(world.dim, [q](std::size_t i) { return static_cast<double>(q[i]); }));
  std::uint32_t const group = batch.group_of[query];
  for (std::uint32_t s = 0; s < world.segments.size() && group != kNone32; ++s) {
    WorldSegment const& segment = world.segments[s];
    for (std::uint32_t row = 0; row < segment.n_rows; ++row) {
      std::uint32_t const slot = segment.first_slot + row;
      bool in_scope = false;
      for (SlotRange const& range : batch.scopes[batch.group_scopes[group]])
        in_scope |= range.begin <= slot && slot < range.end;
      bool const lives = segment.live.empty() || (segment.live[row / 64] >> row % 64 & 1) != 0;
      if (!in_scope || !lives || segment.inverse_norms[row] == 0.0f || inverse == 0.0f) continue;
      if (!passes(group, s, row)) continue;
      float const score =
          cosine(canonical_dot(segment.values.data() + std::size_t{row} * world.dim, q, world.dim),
                 segment.inverse_norms[row], inverse);
      float const floor = batch.floors[query];
      if (batch.strict[query] != 0 ? !(score > floor) : !(score >= floor)) continue;
      all.push_back({score, segment.seqs[row], slot});
    }
  }
  std::sort(all.begin(), all.end(), [](Ranked const& a, Ranked const& b) {
    return a.score != b.score ? a.score > b.score : a.seq < b.seq;
  });
  if (all.size() > batch.depths[query]) all.resize(batch.depths[query]);
  std::vector<FoundRow> out;
  for (Ranked const& one : all) out.push_back({one.score, one.slot, one.seq});
  return out;
}

inline double gaussian(Rng& rng) {
  double sum = 0.0;
  for (int i = 0; i < 12; ++i) sum += rng.unit();
  return sum - 6.0;
}

inline std::vector<float> random_vector(Rng& rng, std::uint32_t dim) {
  std::vector<float> out(dim);
  for (float& value : out) value = static_cast<float>(gaussian(rng));
  return out;
}

}  // namespace hyrecall::testing
