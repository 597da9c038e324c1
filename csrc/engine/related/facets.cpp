#include "engine/related/facets.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kFewEdges = 32;  // comparing with all costs less than a search that guesses

AttributeColumn const& column_of(Snapshot const& snapshot, std::size_t segment,
                                 std::size_t attribute) {
  Segment::Parts const& parts = snapshot.segments[segment]->segment().p;
  require(attribute < parts.attributes.size(), "an attribute column");
  return *parts.attributes[attribute];
}

// Calls f(code) for the values of the rows, for each of a row's distinct values once.
template <typename F>
void for_each_code(AttributeColumn const& column, std::span<SelectedTile const> tiles, F&& f) {
  bool const may_be_nan = column.kind == CodeKind::kFloat;
  auto const tell = [&](std::int64_t code) {
    if (!(may_be_nan && code == kNanCode)) f(code);
  };
  std::vector<std::int64_t> own;
  for (SelectedTile const& one : tiles) {
    Row const begin = one.tile * kTileRows;
    TileMask const mask = one.mask & column.valid_in(one.tile);
    if (!column.is_list) {
      for_each_bit(mask, [&](Row i) { tell(column.codes[begin + i]); });
      continue;
    }
    for_each_bit(mask, [&](Row i) {
      auto const first = static_cast<std::size_t>(column.offsets[begin + i]);
      auto const end = static_cast<std::size_t>(column.offsets[begin + i + 1]);
      own.assign(column.codes.data() + first, column.codes.data() + end);
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      for (std::int64_t const code : own) tell(code);
    });
  }
}

// The counts of codes that may be anything; open addressing, at most half full.
class CodeCounts {
 public:
  void add(std::int64_t code, std::int64_t n) {
    if (2 * (n_ + 1) > slots_.size()) grow();
    Slot& slot = find(code);
    if (slot.count == 0) {
      slot.code = code;
      n_ += 1;
    }
    slot.count += n;
  }
  template <typename F>
  void for_each(F&& f) const {
    for (Slot const& slot : slots_) {
      if (slot.count > 0) f(slot.code, slot.count);
    }
  }

 private:
  struct Slot {
    std::int64_t code = 0;
    std::int64_t count = 0;  // 0: free
  };

  Slot& find(std::int64_t code) {
    std::uint64_t hash = static_cast<std::uint64_t>(code) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].count != 0 && slots_[at].code != code) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> const old =
        std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(64, 2 * slots_.size())));
    for (Slot const& slot : old) {
      if (slot.count > 0) find(slot.code) = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t n_ = 0;
};

// Calls f(code, count) for each value of the rows of a segment.
template <typename F>
void count_segment(AttributeColumn const& column, std::span<SelectedTile const> tiles, F&& f) {
  Zone bounds;
  std::uint64_t n_rows = 0;
  for (SelectedTile const& one : tiles) {
    Zone const& zone = column.zones()[one.tile];
    bounds.min = std::min(bounds.min, zone.min);
    bounds.max = std::max(bounds.max, zone.max);
    n_rows += static_cast<std::uint64_t>(one.mask.count());
  }
  if (bounds.min > bounds.max) return;
  auto const low = static_cast<std::uint64_t>(bounds.min);
  std::uint64_t const span = static_cast<std::uint64_t>(bounds.max) - low;
  if (span < 4 * n_rows + 1024) {  // a place for each code between costs less than finding it
    std::vector<std::int64_t> counts(span + 1, 0);
    for_each_code(column, tiles,
                  [&](std::int64_t code) { counts[static_cast<std::uint64_t>(code) - low] += 1; });
    for (std::uint64_t i = 0; i <= span; ++i) {
      if (counts[i] > 0) f(static_cast<std::int64_t>(low + i), counts[i]);
    }
    return;
  }
  CodeCounts counts;
  for_each_code(column, tiles, [&](std::int64_t code) { counts.add(code, 1); });
  counts.for_each(f);
}

// Sorts values and puts them into two columns.
template <typename T>
void write(std::vector<std::pair<T, std::int64_t>> found, std::vector<T>& values,
           std::vector<std::int64_t>& counts) {
  std::sort(found.begin(), found.end(), [](auto const& a, auto const& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  for (auto const& [value, count] : found) {
    values.push_back(value);
    counts.push_back(count);
  }
}

}  // namespace

ValueCounts count_values(Snapshot const& snapshot, GroupTiles const& tiles, std::size_t attribute) {
  std::unordered_map<std::string_view, std::int64_t> texts;
  CodeCounts codes;
  for (std::size_t s = 0; s < tiles.size(); ++s) {
    AttributeColumn const& column = column_of(snapshot, s, attribute);
    count_segment(column, tiles[s], [&](std::int64_t code, std::int64_t count) {
      if (column.kind == CodeKind::kText) {
        texts[column.dictionary[static_cast<std::size_t>(code)]] += count;
      } else {
        codes.add(code, count);
      }
    });
  }
  ValueCounts out;
  std::vector<std::pair<std::int64_t, std::int64_t>> numbers;
  codes.for_each([&](std::int64_t code, std::int64_t count) { numbers.emplace_back(code, count); });
  write(std::move(numbers), out.codes, out.counts);
  write(std::vector<std::pair<std::string_view, std::int64_t>>(texts.begin(), texts.end()),
        out.texts, out.counts);
  return out;
}

std::vector<std::int64_t> count_between(Snapshot const& snapshot, GroupTiles const& tiles,
                                        std::size_t attribute,
                                        std::span<std::int64_t const> edges) {
  require(std::is_sorted(edges.begin(), edges.end()), "rising edges");
  std::vector<std::int64_t> counts(edges.size() + 1, 0);
  for (std::size_t s = 0; s < tiles.size(); ++s) {
    AttributeColumn const& column = column_of(snapshot, s, attribute);
    require(!column.is_list && column.kind != CodeKind::kText, "one number or time a row");
    for_each_code(column, tiles[s], [&](std::int64_t code) {
      std::size_t at = 0;
      if (edges.size() <= kFewEdges) {
        for (std::int64_t const edge : edges) at += edge <= code ? 1 : 0;
      } else {
        at = static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), code) -
                                      edges.begin());
      }
      counts[at] += 1;
    });
  }
  return counts;
}

}  // namespace hyrecall
