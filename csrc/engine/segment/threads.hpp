// Which rows of one segment are parts of the same thread, and their order in it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/segment/attributes.hpp"
#include "engine/segment/cells.hpp"

namespace hyrecall {

// The attribute columns that say where a row stands; without a place the insertion order decides.
struct ThreadColumns {
  std::size_t thread = 0;
  std::optional<std::size_t> place{};
};

// What a row's order in its thread goes by. Rows without a place come last.
struct PlaceKey {
  bool is_missing = false;
  std::int64_t place = 0;
  Seq seq = 0;

  friend auto operator<=>(PlaceKey const&, PlaceKey const&) = default;
};

// The threads of one segment, numbered by cell, then by value. A thread lies within one cell: equal
// values in two cells are two threads. A row whose value is null is in none.
class ThreadTable {
 public:
  // A thread's value: the code of a number, or the text itself, because segments number texts
  // differently.
  using Value = std::variant<std::int64_t, std::string_view>;

  ThreadTable() = default;
  // place: null = none. Both columns must outlive this.
  ThreadTable(CellDirectory const& cells, AttributeColumn const& thread,
              AttributeColumn const* place, std::span<Seq const> seqs);

  std::size_t size() const { return codes_.size(); }
  std::uint32_t thread_of(Row row) const { return thread_of_[row]; }  // kNone32 = in none
  // The threads [begin, end) of a cell.
  std::uint32_t begin_of_cell(std::size_t cell) const { return cell_begins_[cell]; }
  Value value(std::uint32_t thread) const;
  // The thread of a cell with a value, or kNone32.
  std::uint32_t find(std::uint32_t cell, Value const& value) const;
  // Its rows, dead ones included, by rising key.
  std::span<Row const> rows(std::uint32_t thread) const {
    return std::span(rows_).subspan(begins_[thread], begins_[thread + 1] - begins_[thread]);
  }
  // What rows() reads first.
  void prefetch_begin(std::uint32_t thread) const { __builtin_prefetch(&begins_[thread]); }
  // Where a row with a thread stands in rows(): from 0.
  std::uint32_t place_of(Row row) const { return places_[row]; }
  // Its first and last row, rising.
  std::pair<Row, Row> span_of(std::uint32_t thread) const { return spans_[thread]; }
  PlaceKey key(Row row) const;
  std::size_t bytes() const {
    return (thread_of_.size() + places_.size()) * 4 + spans_.size() * 8 + rows_.size() * 4 +
           begins_.size() * 4 + codes_.size() * 8 + cell_begins_.size() * 4;
  }

 private:
  AttributeColumn const* thread_ = nullptr;
  AttributeColumn const* place_ = nullptr;
  std::span<Seq const> seqs_;
  std::vector<std::uint32_t> thread_of_;    // [n_rows]
  std::vector<Row> rows_;                   // by thread and key
  std::vector<std::uint32_t> places_;       // [n_rows] within the thread
  std::vector<std::pair<Row, Row>> spans_;  // [n_threads]
  std::vector<std::uint32_t> begins_;       // [n_threads + 1] into rows_
  std::vector<std::int64_t> codes_;         // [n_threads] rising within a cell
  std::vector<std::uint32_t> cell_begins_;  // [n_cells + 1] into codes_
};

}  // namespace hyrecall
