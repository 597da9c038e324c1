// A snapshot's columns on a CUDA device, and the dense arm there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/dense_device.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// A dense column of a segment that came as a tensor on the device: row r is its row order[r].
struct GuestColumn {
  std::size_t segment;
  std::size_t column;
  device::Guest guest;
  std::span<std::uint32_t const> order;
};

class DeviceSnapshot {
 public:
  // Uploads what `previous` (may be null) does not hold: a segment, or which of its rows live; the
  // rows of guests do not go through the host. lexical: of each segment its lexical columns; empty:
  // none is uploaded. What no snapshot holds any more is freed. Throws kDeviceUnavailable or
  // kDeviceMemory.
  DeviceSnapshot(std::string const& folder, int ordinal, Snapshot const& snapshot,
                 DeviceSnapshot const* previous, std::span<GuestColumn const> guests = {},
                 std::span<std::vector<device::LexicalArrays> const> lexical = {});

  // Each query's best `depth` rows of one dense arm, as the CPU finds them, bit for bit. kept:
  // where the lists stay, with the queries that are searched for; null: they are returned.
  CandidateLists scan(Snapshot const& snapshot, BatchRequest const& request,
                      DenseRequest const& arm, ResolvedScopes const& scopes,
                      QueryGroups const& groups, device::KeptLists* kept) const;

  // A dense column of a snapshot with segments.
  device::DeviceTable const& dense_table(std::size_t column) const { return *tables_.at(column); }
  // A lexical column's postings; null: they are not there.
  device::DeviceTable const* lexical_table(std::size_t column) const;
  // Of some column, for who needs its rows' numbers alone; null: there is none.
  device::DeviceTable const* any_table() const;

  // The library's folder and the device's ordinal; nothing where there is no dense column.
  std::optional<std::pair<std::string, int>> place() const;

  // Of a segment of the snapshot.
  device::DeviceView const& view(std::size_t segment) const { return *held_.at(segment).on_device; }

  // Of device memory, shared with other snapshots or not.
  std::uint64_t bytes() const;

 private:
  struct Held {
    std::shared_ptr<SegmentView const> view;
    std::shared_ptr<device::DeviceView const> on_device;
  };

  std::vector<Held> held_;
  std::vector<std::shared_ptr<device::DeviceTable const>> tables_;          // by dense column
  std::vector<std::shared_ptr<device::DeviceTable const>> lexical_tables_;  // by lexical column
};

}  // namespace hyrecall
