// What a device reads of a batch's scopes and filters, and the search of an arm there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/dense_device.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

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
  std::vector<std::uint32_t>& group_of() { return arrays_.group_of; }

  // Without what the queries are; points into this.
  device::DenseSearch batch() const { return arrays_.view(); }
  // Each query's best rows, as the CPU finds them, bit for bit. taker (may be null): gets them
  // instead of `lists` where they all come at once.
  void run(device::DenseSearch const& batch, QueryLists& lists, ListTaker* taker) const;

 private:
  device::DeviceTable const& table_;
  device::SearchArrays arrays_;
};

}  // namespace hyrecall
