// What a device reads of a batch's scopes and filters, and the search of an arm there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/dense_device.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// The batch's filters on every segment, as flat programs.
struct DevicePrograms {
  DevicePrograms(Snapshot const& snapshot, BatchRequest const& request);

  std::vector<SegmentFilter> filters;  // [n_filters, n_segments]
  std::vector<TileTest> tests;
  std::vector<std::int64_t> codes;
};

// A search of one arm: what is the same for vectors and texts.
class DeviceSearch {
 public:
  // table: of the arm's column, of all segments of the snapshot. groups: those of the arm's scopes.
  // only: the queries that are searched for; empty: all.
  DeviceSearch(device::DeviceTable const& table, Snapshot const& snapshot,
               BatchRequest const& request, Floor<float> const& floor, ResolvedScopes const& scopes,
               QueryGroups const& groups, std::span<std::uint32_t const> only = {});
  DeviceSearch(DeviceSearch const&) = delete;
  DeviceSearch& operator=(DeviceSearch const&) = delete;

  // [n_queries] whose entry becomes kNone32 is not searched for.
  std::vector<std::uint32_t>& group_of() { return group_of_; }

  device::DeviceTable const& table() const { return table_; }
  // Without what the queries are; points into this.
  device::DenseSearch batch() const;
  // Each query's best rows, as the CPU finds them, bit for bit.
  CandidateLists run(device::DenseSearch const& batch) const;

 private:
  device::DeviceTable const& table_;
  QueryGroups const& groups_;
  DevicePrograms programs_;
  std::vector<SlotRanges> ranges_;  // [scope]
  std::vector<std::uint32_t> group_of_;
  std::vector<float> floors_;
  std::vector<std::uint8_t> strict_;
  std::vector<std::uint32_t> depths_;
  Settings settings_;
  int threads_;
};

}  // namespace hyrecall
