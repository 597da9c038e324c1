#include "engine/segment/keys.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/pages.hpp"

namespace hyrecall {
namespace {

std::uint64_t hash_of(std::uint32_t cell, KeyValue const& key) {
  std::uint64_t const seed = mix64(cell + 1);
  if (auto const* number = std::get_if<std::int64_t>(&key))
    return hash_number(static_cast<std::uint64_t>(*number), seed);
  return hash_bytes(std::get<std::string_view>(key), seed);
}

// Before all keys are read: in a mapped file, a page fault may bring a single page of them.
void read_whole(KeyColumn const& keys) {
  if (auto const* strings = std::get_if<StringColumn>(&keys)) {
    Strings const& values = strings->values;
    read_in_order(values.offsets.data(), values.offsets.bytes());
    read_in_order(values.bytes.data(), values.bytes.bytes());
  } else {
    auto const& values = std::get<IntColumn>(keys).values;
    read_in_order(values.data(), values.bytes());
  }
}

}  // namespace

std::size_t n_keys(KeyColumn const& keys) {
  return std::visit([](auto const& column) { return column.size(); }, keys);
}

KeyValue key_at(KeyColumn const& keys, std::size_t row) {
  if (auto const* strings = std::get_if<StringColumn>(&keys)) return strings->values[row];
  return std::get<IntColumn>(keys).values[row];
}

KeyTable::KeyTable(KeyColumn keys, CellDirectory const& cells, std::vector<LateBytes> late)
    : keys_(std::move(keys)), late_(std::move(late)) {
  require(cells.n_rows() == n_keys(keys_), "a key a row");
}

void KeyTable::check() const {
  if (late_.empty() || made_->is_checked.load(std::memory_order_acquire)) return;
  for (LateBytes const& part : late_) part.ensure();
  if (auto const* strings = std::get_if<StringColumn>(&keys_)) {  // a forged file may have others
    Strings const& values = strings->values;
    auto const& offsets = values.offsets;
    bool const is_inside =
        offsets.empty() ||
        (offsets[0] >= 0 && std::is_sorted(offsets.begin(), offsets.end()) &&
         static_cast<std::uint64_t>(offsets[offsets.size() - 1]) <= values.bytes.size());
    if (!is_inside) {
      throw Error(ErrorCode::kCorrupt, late_.front().checks->path(),
                  "expected rising offsets of keys within the file, got others");
    }
  }
  made_->is_checked.store(true, std::memory_order_release);
}

KeyTable::Slots const& KeyTable::slots(CellDirectory const& cells) const {
  if (Slots const* const held = made_->slots.load(std::memory_order_acquire)) return *held;
  // Made without a lock: two threads may both do it, and the first result stays.
  auto fresh = std::make_unique<Slots>();
  read_whole(keys_);
  check();
  std::size_t const n_rows = n_keys(keys_);
  std::vector<Row> slots(std::bit_ceil(n_rows + n_rows / 2 + 1), kNone32);
  std::size_t const mask = slots.size() - 1;
  for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
    RowRange const rows = cells.rows(cell);
    for (Row row = rows.begin; row < rows.end; ++row) {
      KeyValue const value = key(row);
      std::size_t at = hash_of(cell, value) & mask;
      for (; slots[at] != kNone32; at = (at + 1) & mask) {
        Row const other = slots[at];
        if (other >= rows.begin && key(other) == value) fresh->duplicate = std::minmax(other, row);
      }
      slots[at] = row;
    }
  }
  fresh->rows = std::move(slots);
  Slots const* expected = nullptr;
  if (!made_->slots.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

std::size_t KeyTable::bytes() const {
  Slots const* const held = made_->slots.load(std::memory_order_acquire);
  return held == nullptr ? 0 : held->rows.bytes();
}

Row KeyTable::find(CellDirectory const& cells, std::uint32_t cell, KeyValue const& wanted) const {
  if (wanted.index() != keys_.index()) return kNone32;
  Slots const& table = slots(cells);
  if (table.duplicate) {  // opening a file leaves this check to the first look
    throw Error(ErrorCode::kCorrupt, "key", "expected keys unique within a cell, got others");
  }
  RowRange const rows = cells.rows(cell);
  Buffer<Row> const& found = table.rows;
  std::size_t const mask = found.size() - 1;
  for (std::size_t at = hash_of(cell, wanted) & mask; found[at] != kNone32; at = (at + 1) & mask) {
    Row const row = found[at];
    if (row >= rows.begin && row < rows.end && key(row) == wanted) return row;
  }
  return kNone32;
}

KeyValue KeyTable::key(Row row) const {
  return key_at(keys_, row);
}

}  // namespace hyrecall
