// Which rows hold which items of a list column: a hypergraph whose nodes are the items and whose
// edges are the rows. Documents and their tags are one, edges and their participants another.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/doc_ref.hpp"
#include "engine/scope/audience.hpp"
#include "engine/segment/keys.hpp"

namespace hyrecall {

class Incidence {
 public:
  using Item = std::uint32_t;  // the number of an item: its place in the order of values
  static constexpr std::uint8_t kFar = 255;  // hops to an item that was not reached

  // Over the rows of the tiles; a column without lists has an item a row. The snapshot must outlive
  // this.
  Incidence(Snapshot const& snapshot, std::size_t attribute, GroupTiles const& tiles);

  std::size_t n_rows() const { return places_.size(); }
  std::size_t n_items() const { return values_.size(); }
  DocRef place(std::size_t row) const { return places_[row]; }
  KeyValue const& value(Item item) const { return values_[item]; }
  // The item with this value, or kNone32.
  Item find(KeyValue const& value) const;
  // The row that lies there, or kNone32.
  std::uint32_t find(DocRef place) const;
  // Rising, each once.
  std::span<Item const> items_of(std::size_t row) const {
    return {items_.data() + item_begins_[row], items_.data() + item_begins_[row + 1]};
  }
  std::span<std::uint32_t const> rows_of(Item item) const {
    return {rows_.data() + row_begins_[item], rows_.data() + row_begins_[item + 1]};
  }

  // Hops to every item from the nearest source, at most `most` < kFar: items of one row are one hop
  // apart. is_there(item) is asked once for each item in reach; what is not there is not passed.
  std::vector<std::uint8_t> hops_from(std::span<Item const> sources, int most,
                                      std::function<bool(Item)> const& is_there = {}) const;

 private:
  void invert();

  std::vector<DocRef> places_;    // rising
  std::vector<KeyValue> values_;  // rising
  std::vector<std::size_t> item_begins_{0};
  std::vector<Item> items_;
  std::vector<std::size_t> row_begins_;
  std::vector<std::uint32_t> rows_;
};

}  // namespace hyrecall
