#include "engine/segment/threads.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hyrecall {
namespace {

bool has_value(AttributeColumn const& column, Row row) {
  return column.valid_in(row / kTileRows).test(row % kTileRows);
}

}  // namespace

ThreadTable::ThreadTable(CellDirectory const& cells, AttributeColumn const& thread,
                         AttributeColumn const* place, std::span<Seq const> seqs)
    : thread_(&thread),
      place_(place),
      seqs_(seqs),
      thread_of_(seqs.size(), kNone32),
      places_(seqs.size()) {
  require(!thread.is_list && thread.kind != CodeKind::kFloat, "threads of numbers or texts");
  require(place == nullptr || (!place->is_list && place->kind != CodeKind::kText),
          "places that are numbers");
  begins_.push_back(0);
  cell_begins_.push_back(0);
  struct Entry {
    std::int64_t code;
    PlaceKey key;
    Row row;
  };
  std::vector<Entry> entries;
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    entries.clear();
    RowRange const range = cells.rows(cell);
    for (Row row = range.begin; row < range.end; ++row) {
      if (has_value(thread, row)) entries.push_back({thread.codes[row], key(row), row});
    }
    std::sort(entries.begin(), entries.end(), [](Entry const& a, Entry const& b) {
      return a.code != b.code ? a.code < b.code : a.key < b.key;
    });
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i == 0 || entries[i].code != entries[i - 1].code) {
        if (i > 0) begins_.push_back(static_cast<std::uint32_t>(rows_.size()));
        codes_.push_back(entries[i].code);
        spans_.emplace_back(entries[i].row, entries[i].row);
      }
      Row const row = entries[i].row;
      spans_.back() = {std::min(spans_.back().first, row), std::max(spans_.back().second, row)};
      places_[row] = static_cast<std::uint32_t>(rows_.size()) - begins_.back();
      thread_of_[row] = static_cast<std::uint32_t>(codes_.size()) - 1;
      rows_.push_back(row);
    }
    if (!entries.empty()) begins_.push_back(static_cast<std::uint32_t>(rows_.size()));
    cell_begins_.push_back(static_cast<std::uint32_t>(codes_.size()));
  }
}

PlaceKey ThreadTable::key(Row row) const {
  PlaceKey out{false, 0, seqs_[row]};
  if (place_ != nullptr) {
    out.is_missing = !has_value(*place_, row);
    if (!out.is_missing) out.place = place_->codes[row];
  }
  return out;
}

ThreadTable::Value ThreadTable::value(std::uint32_t thread) const {
  if (thread_->kind != CodeKind::kText) return codes_[thread];
  return std::string_view(thread_->dictionary[static_cast<std::size_t>(codes_[thread])]);
}

std::uint32_t ThreadTable::find(std::uint32_t cell, Value const& value) const {
  std::int64_t code = 0;
  if (auto const* const text = std::get_if<std::string_view>(&value)) {
    Strings const& known = thread_->dictionary;
    std::size_t low = 0, high = known.size();
    while (low < high) {
      std::size_t const middle = low + (high - low) / 2;
      if (std::string_view(known[middle]) < *text) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == known.size() || std::string_view(known[low]) != *text) return kNone32;
    code = static_cast<std::int64_t>(low);
  } else {
    code = std::get<std::int64_t>(value);
  }
  auto const begin = codes_.begin() + cell_begins_[cell];
  auto const end = codes_.begin() + cell_begins_[cell + 1];
  auto const at = std::lower_bound(begin, end, code);
  if (at == end || *at != code) return kNone32;
  return static_cast<std::uint32_t>(at - codes_.begin());
}

}  // namespace hyrecall
