// (cell, key) -> row, per segment. A document's identity is its cell and its key.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "engine/segment/cells.hpp"
#include "engine/segment/columns.hpp"

namespace hyrecall {

// One key as it is looked up: a string or an int64.
using KeyValue = std::variant<std::string_view, std::int64_t>;

std::size_t n_keys(KeyColumn const& keys);
// The key of a row; a string lies in the column.
KeyValue key_at(KeyColumn const& keys, std::size_t row);

class KeyTable {
 public:
  KeyTable() = default;
  KeyTable(KeyColumn keys, CellDirectory const& cells);

  // Looks only at rows of the given cell of this segment.
  Row find(CellDirectory const& cells, std::uint32_t cell, KeyValue const& key) const;
  // Two rows with the same identity, found while building; the segment must then be refused.
  std::optional<std::pair<Row, Row>> duplicate() const { return duplicate_; }
  KeyValue key(Row row) const;
  std::size_t n_rows() const { return n_keys(keys_); }
  std::size_t bytes() const { return slots_.bytes(); }

 private:
  KeyColumn keys_;
  Buffer<Row> slots_;  // open addressing over the hash of (cell number, key); kNone32 = free
  std::optional<std::pair<Row, Row>> duplicate_;
};

}  // namespace hyrecall
