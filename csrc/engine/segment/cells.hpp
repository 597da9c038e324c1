// Cells: the unit of authorisation. A segment's rows are sorted by cell, so a cell is one run of
// rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/string_slots.hpp"
#include "engine/segment/columns.hpp"

namespace hyrecall {

// A cell's identity as bytes: per cell column a tag and the value (null; bool; int64, little
// endian; length and UTF-8). Two tuples are the same cell exactly when their encodings are equal.
// No cell columns = the empty string.
std::string encode_cell(std::span<CellPart const> parts, std::size_t row);

// One part of a cell, appended as encode_cell does; monostate is null.
using CellValue = std::variant<std::monostate, bool, std::int64_t, std::string_view>;
void append_cell_value(std::string& out, CellValue const& value);

// The encoded value of a cell's part; nothing where it has fewer.
std::string_view cell_part(std::string_view cell, std::size_t part);

// Whether an encoded cell has these encoded parts; none = any value.
bool cell_matches(std::string_view cell, std::span<std::optional<std::string> const> pattern);

// The runs of equal cells of a segment whose rows are already sorted by cell.
class CellDirectory {
 public:
  CellDirectory() = default;
  CellDirectory(std::span<CellPart const> parts, std::size_t n_rows);

  std::size_t size() const { return keys_.size(); }
  std::size_t n_rows() const { return begins_.empty() ? 0 : begins_[begins_.size() - 1]; }
  std::string_view key(std::size_t cell) const { return keys_[cell]; }
  RowRange rows(std::size_t cell) const { return {begins_[cell], begins_[cell + 1]}; }
  // The number of the cell in this segment, or kNone32.
  std::uint32_t find(std::string_view key) const { return slots_.find(keys_, key); }
  // Of those that are here, rising, each once.
  std::vector<std::uint32_t> find_all(std::span<std::string const> keys, int threads) const;
  std::uint32_t cell_of(Row row) const;
  std::span<Row const> begins() const { return begins_.span(); }
  std::size_t bytes() const {
    return keys_.bytes.bytes() + keys_.offsets.bytes() + begins_.bytes() + slots_.bytes();
  }

 private:
  Strings keys_;                  // [n_cells] encoded, in rising byte order
  Buffer<std::uint32_t> begins_;  // [n_cells + 1] first row of each cell
  StringSlots slots_;
};

// The order a segment wants its rows in: by (cell, cluster, seq). Rows come in seq order; cluster
// may be empty.
std::vector<std::uint32_t> sort_rows(std::span<CellPart const> parts, std::size_t n_rows,
                                     std::span<std::int64_t const> cluster,
                                     std::span<Seq const> seqs);

}  // namespace hyrecall
