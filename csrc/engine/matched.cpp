// The rows that the arms of a request match, whatever their scores: of a text those that it
// matches, of a vector those that have one, of a list those on it.
#include <algorithm>
#include <span>

#include "engine/dense/column.hpp"
#include "engine/recall.hpp"

namespace hyrecall {
namespace {

// A bit for each row of some tiles in a row.
class RowBits {
 public:
  explicit RowBits(std::span<SelectedTile const> tiles)
      : first_(tiles.empty() ? 0 : tiles.front().tile),
        masks_(tiles.empty() ? 0 : tiles.back().tile - first_ + 1) {}

  void set(Row row) {
    Row const tile = row / kTileRows - first_;  // wraps round before the first
    if (tile < masks_.size()) masks_[tile].set(row % kTileRows);
  }
  bool test(Row row) const { return masks_[row / kTileRows - first_].test(row % kTileRows); }
  TileMask& operator[](Row tile) { return masks_[tile - first_]; }

 private:
  Row first_;
  std::vector<TileMask> masks_;
};

void add_vectors(DenseColumn const& column, std::span<SelectedTile const> seen, RowBits& found) {
  for (SelectedTile const& one : seen) {
    for_each_bit(one.mask, [&](Row i) {
      if (column.has(one.tile * kTileRows + i)) found[one.tile].set(i);
    });
  }
}

// Adds the rows of the tiles that match a text query whose leaves have these postings.
void add_texts(LexicalQuery const& query, std::span<LeafPostings const> postings,
               std::span<SelectedTile const> tiles, RowBits& found) {
  auto const add = [](LeafPostings const& leaf, RowBits& rows) {
    leaf.list.for_each(leaf.begin, leaf.end, [&](Row row, std::uint32_t) { rows.set(row); });
  };
  if (query.is_bag) {
    for (LeafPostings const& leaf : postings) add(leaf, found);
    return;
  }
  std::vector<RowBits> held(postings.size(), RowBits(tiles));
  RowBits any(tiles);
  for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
    add(postings[leaf], held[leaf]);
    add(postings[leaf], any);
  }
  for (SelectedTile const& one : tiles) {
    for_each_bit(one.mask & any[one.tile], [&](Row i) {
      Row const row = one.tile * kTileRows + i;
      if (query.matches([&](std::uint32_t leaf) { return held[leaf].test(row); }))
        found[one.tile].set(i);
    });
  }
}

}  // namespace

GroupTiles Execution::matched(std::size_t query, Audiences const& audiences) const {
  require(query < request_.n_queries, "a known query");
  Audience const& whole = audiences.of(kAllTables);
  GroupTiles const& seen = whole.tiles(whole.group_of(query));
  if (request_.n_arms() == 0) return seen;
  GroupTiles out(seen.size());
  for (std::size_t s = 0; s < seen.size(); ++s) {
    RowBits found(seen[s]);
    for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
      auto const& text = queries_[arm][query];
      if (text) add_texts(*text, postings_[arm].at(query, s), seen[s], found);
    }
    for (DenseRequest const& arm : request_.dense) {
      if (arm.query(query).inverse_norm == 0.0f) continue;
      Audience const& own = audiences.of(arm.table);
      auto const& column = snapshot_.segments[s]->segment().p.dense[arm.column];
      add_vectors(*column, own.tiles(own.group_of(query))[s], found);
    }
    for (ListedRequest const& arm : request_.listed) {
      for (ListedDoc const& one : arm.queries[query])
        if (one.doc.segment == s) found.set(one.doc.row);
    }
    for (SelectedTile const& one : seen[s]) {
      TileMask const mask = one.mask & found[one.tile];
      if (mask.any()) out[s].push_back({one.tile, mask});
    }
  }
  return out;
}

}  // namespace hyrecall
