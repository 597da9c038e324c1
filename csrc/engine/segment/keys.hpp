// (cell, key) -> row, per segment. A document's identity is its cell and its key.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/block_checks.hpp"
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
  // The table is made by whoever first looks into it. `cells` is the segment's, here and below.
  // late: the bytes of keys of a file that were not compared yet.
  KeyTable(KeyColumn keys, CellDirectory const& cells, std::vector<LateBytes> late = {});

  // Checks the keys of a file, once; whoever reads keys without a look into the table calls it.
  void check() const;

  // Looks only at rows of the given cell of this segment. Throws if any identity occurs twice.
  Row find(CellDirectory const& cells, std::uint32_t cell, KeyValue const& key) const;
  // Two rows with the same identity; the segment must then be refused.
  std::optional<std::pair<Row, Row>> duplicate(CellDirectory const& cells) const {
    return slots(cells).duplicate;
  }
  KeyValue key(Row row) const;
  std::size_t n_rows() const { return n_keys(keys_); }
  std::size_t bytes() const;

 private:
  struct Slots {
    Buffer<Row> rows;  // open addressing over the hash of (cell number, key); kNone32 = free
    std::optional<std::pair<Row, Row>> duplicate{};
  };
  // A plain pointer, because no fork may meet a lock that is held.
  struct Made {
    std::atomic<Slots const*> slots{nullptr};  // owned
    std::atomic<bool> is_checked{false};
    Made() = default;
    Made(Made const&) = delete;
    Made& operator=(Made const&) = delete;
    ~Made() { delete slots.load(std::memory_order_acquire); }
  };
  Slots const& slots(CellDirectory const& cells) const;

  KeyColumn keys_;
  std::vector<LateBytes> late_;
  std::shared_ptr<Made> made_ = std::make_shared<Made>();
};

}  // namespace hyrecall
