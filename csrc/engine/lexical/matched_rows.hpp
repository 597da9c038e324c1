// The rows that match a text query, found list by list: a set of bits for each group of the tree.
#pragma once

#include <span>
#include <vector>

#include "core/interrupt.hpp"
#include "core/types.hpp"
#include "engine/lexical/query.hpp"

namespace hyrecall {

// A bit for each row of some tiles in a row.
class RowBits {
 public:
  RowBits(Row first_tile, Row n_tiles) : first_(first_tile), masks_(n_tiles) {}

  Row first_tile() const { return first_; }
  std::span<TileMask const> masks() const { return masks_; }
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

// Adds the rows that match a node. add(leaf, rows) adds those that hold a leaf: it is called once
// for each place of a leaf in the tree, so that the cost is that of the postings, and of a set of
// bits for each node.
template <typename F>
void add_matched(MatchNode const& node, F const& add, RowBits& found) {
  auto const add_any = [&add](std::span<MatchNode const> nodes, RowBits& to) {
    for (MatchNode const& one : nodes) add_matched(one, add, to);
  };
  bool const is_all = node.kind == MatchNode::Kind::kAll;
  if (node.kind == MatchNode::Kind::kLeaf) return add(node.leaf, found);
  poll_interrupt();
  if (!is_all && node.excluded.empty()) return add_any(node.children, found);
  if (node.children.empty()) return;
  auto const none = [&found] {
    return RowBits(found.first_tile(), static_cast<Row>(found.masks().size()));
  };
  RowBits own = none();
  if (is_all) {
    add_matched(node.children.front(), add, own);
    for (MatchNode const& child : std::span(node.children).subspan(1)) {
      RowBits next = none();
      add_matched(child, add, next);
      own &= next;
    }
  } else {
    add_any(node.children, own);
  }
  if (!node.excluded.empty()) {
    RowBits excluded = none();
    add_any(node.excluded, excluded);
    own -= excluded;
  }
  found |= own;
}

// The same of a whole query.
template <typename F>
void add_matched(LexicalQuery const& query, F const& add, RowBits& found) {
  if (!query.is_bag) return add_matched(query.match, add, found);
  for (std::uint32_t leaf = 0; leaf < query.leaves.size(); ++leaf) add(leaf, found);
}

}  // namespace hyrecall
