// One pass of a batch over a table, planned: a search of some of its queries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "device/dense_device.hpp"
#include "device/dense_planner.hpp"
#include "device/device_library.hpp"

namespace hyrecall::device {

// Some queries of a batch, with the least score that can still be among their best.
struct Piece {
  std::vector<std::uint32_t> queries;
  std::vector<float> floors;
  std::vector<std::uint8_t> strict;
  std::uint32_t capacity = 0;  // 0: as choose_tuning says; of lost queries: what was too little

  // All that are searched for.
  static Piece all(DenseSearch const& batch);
  Piece part(std::size_t begin, std::size_t end) const;
};

// How much the queries of a batch read.
class ScopeSizes {
 public:
  ScopeSizes(DenseSearch const& batch, std::uint32_t tile_rows);

  std::size_t rows(std::uint32_t query) const { return rows_[scope_of(query)]; }  // at least 1
  // Of the scope with the most tiles: each row of these has a place, in scope or not.
  std::size_t most_places() const { return most_tiles_ * kTileRows; }
  std::size_t tiles(std::uint32_t query) const { return tiles_[scope_of(query)]; }

 private:
  std::uint32_t scope_of(std::uint32_t query) const {
    return batch_.group_scopes[batch_.group_of[query]];
  }

  DenseSearch const& batch_;
  std::vector<std::size_t> rows_;   // [scope]
  std::vector<std::size_t> tiles_;  // [scope]
  std::size_t most_tiles_ = 1;
};

// The table, the batch and the piece must outlive it.
class Pass {
 public:
  Pass(DeviceTable const& table, DenseSearch const& batch, Piece const& piece,
       ScopeSizes const& sizes);
  Pass(Pass const&) = delete;
  Pass& operator=(Pass const&) = delete;

  // What the library takes, but for who takes the results.
  cuda::SearchParams params{};
  std::size_t most_rows = 1;  // that a query may see

  // After the call: rethrows what went wrong while queries were copied; hands over the readings of
  // those that lie on the device.
  void accept() const;

 private:
  void plan();
  void set_plan(DensePlan const& plan);
  void set_queries();
  bool has_many() const { return !batch_.vector_begins.empty(); }  // vectors a query
  std::uint32_t n_vectors(std::uint32_t query) const {
    return batch_.vector_begins[query + 1] - batch_.vector_begins[query];
  }
  static void write_queries(void* context, float* to);

  DeviceTable const& table_;
  DenseSearch const& batch_;
  Piece const& piece_;
  std::vector<std::uint32_t> group_of_, depths_;
  Tuned const* tuned_;  // null: the model
  DenseTuning tuning_{};
  std::optional<DensePlan> plan_;
  std::vector<LexicalText> texts_;
  std::vector<std::uint32_t> vector_begins_;
  std::vector<std::uint32_t> sparse_begins_;
  std::vector<SparseRuns> sparse_runs_;
  std::vector<std::uint32_t> guest_rows_;
  std::vector<float*> guest_values_;
  std::vector<GuestReading> readings_;
  std::exception_ptr error_;
};

}  // namespace hyrecall::device
