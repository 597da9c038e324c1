// The rows that the arms of a request match, whatever their scores: of a text those that it
// matches, of a vector those that have one, of a list those on it.
#include <algorithm>
#include <span>

#include "core/error.hpp"
#include "core/interrupt.hpp"
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
  TileMask& operator[](Row tile) { return masks_[tile - first_]; }
  // The other must be of the same tiles.
  void operator|=(RowBits const& other) {
    for (std::size_t i = 0; i < masks_.size(); ++i) masks_[i] = masks_[i] | other.masks_[i];
  }
  void operator&=(RowBits const& other) {
    for (std::size_t i = 0; i < masks_.size(); ++i) masks_[i] = masks_[i] & other.masks_[i];
  }
  void operator-=(RowBits const& other) {
    for (std::size_t i = 0; i < masks_.size(); ++i) masks_[i] = masks_[i] & ~other.masks_[i];
  }

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

// The rows of some tiles that match parts of a text query whose leaves have these postings.
class TextRows {
 public:
  TextRows(std::span<LeafPostings const> postings, std::span<SelectedTile const> tiles)
      : postings_(postings), tiles_(tiles) {}

  void add(std::size_t leaf, RowBits& found) const {
    poll_interrupt();
    LeafPostings const& one = postings_[leaf];
    one.list.for_each(one.begin, one.end, [&](Row row, std::uint32_t) { found.set(row); });
  }
  // A set of rows for each group, not for each leaf.
  void add(MatchNode const& node, RowBits& found) const {
    bool const is_all = node.kind == MatchNode::Kind::kAll;
    if (node.kind == MatchNode::Kind::kLeaf) return add(node.leaf, found);
    if (!is_all && node.excluded.empty()) return add_any(node.children, found);
    if (node.children.empty()) return;
    RowBits own(tiles_);
    if (is_all) {
      add(node.children.front(), own);
      for (MatchNode const& child : std::span(node.children).subspan(1)) {
        RowBits next(tiles_);
        add(child, next);
        own &= next;
      }
    } else {
      add_any(node.children, own);
    }
    if (!node.excluded.empty()) {
      RowBits excluded(tiles_);
      add_any(node.excluded, excluded);
      own -= excluded;
    }
    found |= own;
  }

 private:
  void add_any(std::span<MatchNode const> nodes, RowBits& found) const {
    for (MatchNode const& one : nodes) add(one, found);
  }

  std::span<LeafPostings const> postings_;
  std::span<SelectedTile const> tiles_;
};

void add_texts(LexicalQuery const& query, TextRows const& rows, RowBits& found) {
  if (!query.is_bag) return rows.add(query.match, found);
  for (std::size_t leaf = 0; leaf < query.leaves.size(); ++leaf) rows.add(leaf, found);
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
      if (text) add_texts(*text, TextRows(postings_[arm].at(query, s), seen[s]), found);
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
