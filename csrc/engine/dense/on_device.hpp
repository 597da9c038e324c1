// A snapshot's columns on a CUDA device, and the dense arm there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/dense_device.hpp"
#include "engine/request/guest_queries.hpp"
#include "engine/scope/audience.hpp"
#include "engine/scope/on_device.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// A dense column of a segment that was given as a tensor on the device: row r of the segment is
// row order[r] of the tensor.
struct GuestColumn {
  std::size_t segment;
  std::size_t column;
  device::Guest guest;
  std::span<std::uint32_t const> order;
};

class DeviceSnapshot {
 public:
  // Uploads the segments and live bits that `previous` (may be null) does not hold; the rows of
  // guests are copied on the device. lexical: the lexical columns of each segment; empty: none is
  // uploaded. Memory that no snapshot uses any more is freed. Throws kDeviceUnavailable or
  // kDeviceMemory.
  DeviceSnapshot(std::string const& folder, int ordinal, Snapshot const& snapshot,
                 DeviceSnapshot const* previous, std::span<GuestColumn const> guests = {},
                 std::span<std::vector<LexicalArrays> const> lexical = {});

  // A dense column of a snapshot with segments.
  device::DeviceTable const& dense_table(std::size_t column) const { return *tables_.at(column); }
  // A lexical column's postings; null: they are not on the device.
  device::DeviceTable const* lexical_table(std::size_t column) const {
    return column < lexical_tables_.size() ? lexical_tables_[column].get() : nullptr;
  }

  // The library's folder and the device's ordinal; nothing if there is no dense column.
  std::optional<std::pair<std::string, int>> place() const;

  // The device's view of a segment of the snapshot.
  device::DeviceView const& view(std::size_t segment) const { return *held_.at(segment).on_device; }

  // Device memory in use, including memory that other snapshots share.
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

// An arm of a request on a snapshot with documents, ready to be searched. Finds each query's best
// `depth` rows, bit for bit as the CPU.
class DenseArm {
 public:
  // groups: of the arm's table of scopes. only: the queries that are wanted; empty: all.
  DenseArm(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
           ResolvedScopes const& scopes, QueryGroups const& groups,
           std::span<std::uint32_t const> only);
  DenseArm(DenseArm const&) = delete;
  DenseArm& operator=(DenseArm const&) = delete;

  // Whether the queries are read where they lie on the device: then nothing is known of them before
  // the search, and accept() must follow it.
  bool is_in_place() const { return guests_.has_value(); }
  // Points into this.
  device::DenseSearch batch() const;
  void accept();
  void run(QueryLists& lists, ListTaker* taker);

 private:
  void add_sparse(Snapshot const& snapshot, std::size_t n_queries);

  DenseRequest const& arm_;
  DeviceSearch search_;
  std::optional<GuestQueries::Rows> guests_;
  // Of queries of many vectors; without the missing ones.
  std::vector<float> vectors_;
  std::vector<std::uint32_t> vector_begins_;
  // Of sparse queries; see SparseTerms.
  std::vector<std::uint32_t> sparse_begins_;
  std::vector<SparseRuns> sparse_runs_;
};

}  // namespace hyrecall
