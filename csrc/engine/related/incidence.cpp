#include "engine/related/incidence.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// The codes that the rows of one segment hold, and a number for each distinct one, in rising order.
struct SegmentCodes {
  std::vector<std::int64_t> distinct;  // rising
  std::vector<std::uint32_t> numbers;  // [n_elements] index into distinct
  std::vector<std::size_t> row_ends;   // [n_rows] into numbers
};

void number_codes(std::vector<std::int64_t> const& codes, std::size_t n_dictionary,
                  SegmentCodes& out) {
  out.numbers.resize(codes.size());
  if (n_dictionary > 0 && n_dictionary <= 4 * codes.size() + 1024) {
    // Small codes, most of them in use: a table is cheaper than sorting.
    std::vector<std::uint32_t> number_of(n_dictionary, kNone32);
    for (std::int64_t code : codes) number_of[static_cast<std::size_t>(code)] = 0;
    for (std::size_t code = 0; code < n_dictionary; ++code) {
      if (number_of[code] == kNone32) continue;
      number_of[code] = static_cast<std::uint32_t>(out.distinct.size());
      out.distinct.push_back(static_cast<std::int64_t>(code));
    }
    for (std::size_t i = 0; i < codes.size(); ++i)
      out.numbers[i] = number_of[static_cast<std::size_t>(codes[i])];
    return;
  }
  out.distinct = codes;
  std::sort(out.distinct.begin(), out.distinct.end());
  out.distinct.erase(std::unique(out.distinct.begin(), out.distinct.end()), out.distinct.end());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    auto const at = std::lower_bound(out.distinct.begin(), out.distinct.end(), codes[i]);
    out.numbers[i] = static_cast<std::uint32_t>(at - out.distinct.begin());
  }
}

SegmentCodes read_codes(AttributeColumn const& column, std::span<SelectedTile const> tiles) {
  SegmentCodes out;
  std::vector<std::int64_t> codes;
  for (SelectedTile const& selected : tiles) {
    TileMask const valid = column.valid_in(selected.tile);
    for_each_bit(selected.mask, [&](Row i) {
      std::size_t const row = std::size_t{selected.tile} * kTileRows + i;
      if (valid.test(i)) {
        auto const begin = column.is_list ? static_cast<std::size_t>(column.offsets[row]) : row;
        auto const end =
            column.is_list ? static_cast<std::size_t>(column.offsets[row + 1]) : row + 1;
        codes.insert(codes.end(), column.codes.begin() + begin, column.codes.begin() + end);
      }
      out.row_ends.push_back(codes.size());
    });
  }
  number_codes(codes, column.dictionary.size(), out);
  return out;
}

KeyValue value_of(AttributeColumn const& column, std::int64_t code) {
  if (column.kind == CodeKind::kText) return column.dictionary[static_cast<std::size_t>(code)];
  return code;
}

}  // namespace

Incidence::Incidence(Snapshot const& snapshot, std::size_t attribute, GroupTiles const& tiles) {
  std::vector<SegmentCodes> read;
  std::vector<AttributeColumn const*> columns;
  for (std::size_t s = 0; s < tiles.size(); ++s) {
    Segment::Parts const& parts = snapshot.segments[s]->segment().p;
    require(attribute < parts.attributes.size(), "an attribute column");
    columns.push_back(parts.attributes[attribute].get());
    require(columns.back()->kind != CodeKind::kFloat, "a column of strings or integers");
    read.push_back(read_codes(*columns.back(), tiles[s]));
    // A segment's codes have the order of their values, so its values are a sorted run.
    auto const n_before = static_cast<std::ptrdiff_t>(values_.size());
    for (std::int64_t code : read[s].distinct) values_.push_back(value_of(*columns[s], code));
    std::inplace_merge(values_.begin(), values_.begin() + n_before, values_.end());
  }
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  for_each_row(tiles, [&](DocRef doc) { places_.push_back(doc); });
  for (std::size_t s = 0; s < read.size(); ++s) {
    std::vector<Item> item_of;  // [n distinct]
    Item item = 0;              // both lists rise: one walk finds all
    for (std::int64_t code : read[s].distinct) {
      KeyValue const value = value_of(*columns[s], code);
      while (values_[item] != value) ++item;
      item_of.push_back(item);
    }
    std::size_t begin = 0;
    for (std::size_t end : read[s].row_ends) {
      std::size_t const first = items_.size();
      for (; begin < end; ++begin) items_.push_back(item_of[read[s].numbers[begin]]);
      auto const own = items_.begin() + static_cast<std::ptrdiff_t>(first);
      std::sort(own, items_.end());
      items_.erase(std::unique(own, items_.end()), items_.end());
      item_begins_.push_back(items_.size());
    }
  }
  invert();
}

void Incidence::invert() {
  row_begins_.assign(n_items() + 1, 0);
  for (Item item : items_) ++row_begins_[item + 1];
  for (std::size_t item = 0; item < n_items(); ++item) row_begins_[item + 1] += row_begins_[item];
  rows_.resize(items_.size());
  std::vector<std::size_t> next(row_begins_.begin(), row_begins_.end() - 1);
  for (std::uint32_t row = 0; row < n_rows(); ++row) {
    for (Item item : items_of(row)) rows_[next[item]++] = row;
  }
}

Incidence::Item Incidence::find(KeyValue const& value) const {
  auto const at = std::lower_bound(values_.begin(), values_.end(), value);
  if (at == values_.end() || *at != value) return kNone32;
  return static_cast<Item>(at - values_.begin());
}

std::uint32_t Incidence::find(DocRef place) const {
  auto const at = std::lower_bound(places_.begin(), places_.end(), place);
  if (at == places_.end() || *at != place) return kNone32;
  return static_cast<std::uint32_t>(at - places_.begin());
}

std::vector<std::uint8_t> Incidence::hops_from(std::span<Item const> sources, int most,
                                               std::function<bool(Item)> const& is_there) const {
  std::vector<std::uint8_t> hops(n_items(), kFar);
  std::vector<bool> met(n_items(), false);
  std::vector<bool> crossed(n_rows(), false);
  std::vector<Item> reached;
  std::vector<Item> next;
  auto const reach = [&](Item item, int hop) {
    if (met[item]) return;
    met[item] = true;
    if (is_there && !is_there(item)) return;
    hops[item] = static_cast<std::uint8_t>(hop);
    next.push_back(item);
  };
  for (Item item : sources) reach(item, 0);
  for (int hop = 1; hop <= most && !next.empty(); ++hop) {
    reached.swap(next);
    next.clear();
    for (Item item : reached) {
      for (std::uint32_t row : rows_of(item)) {
        if (crossed[row]) continue;
        crossed[row] = true;
        for (Item other : items_of(row)) reach(other, hop);
      }
    }
  }
  return hops;
}

}  // namespace hyrecall
