// What a device reads of a batch's scopes and filters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scope/audience.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/dense_rows.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall {

// The batch's filters on every segment, as flat programs.
struct DevicePrograms {
  DevicePrograms(Snapshot const& snapshot, BatchRequest const& request);

  std::vector<SegmentFilter> filters;  // [n_filters, n_segments]
  std::vector<TileTest> tests;
  std::vector<std::int64_t> codes;
};

// Every scope as slots; first_slots: [n_segments].
std::vector<std::vector<SlotRange>> slot_ranges(ResolvedScopes const& scopes,
                                                std::span<std::uint32_t const> first_slots);

// The document of a slot.
DocRef doc_of_slot(std::span<std::uint32_t const> first_slots, std::uint32_t slot);

}  // namespace hyrecall
