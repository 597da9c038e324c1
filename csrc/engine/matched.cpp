// The rows that the arms of a request match, whatever their scores: of a text those that it
// matches, of a vector those that have one, of a sparse one those that share a term with it, of a
// list those on it.
#include <algorithm>
#include <span>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "engine/dense/column.hpp"
#include "engine/lexical/matched_rows.hpp"
#include "engine/recall.hpp"

namespace hyrecall {
namespace {

RowBits bits_of(std::span<SelectedTile const> tiles) {
  if (tiles.empty()) return {0, 0};
  return {tiles.front().tile, tiles.back().tile - tiles.front().tile + 1};
}

void add_vectors(DenseColumn const& column, std::span<SelectedTile const> seen, RowBits& found) {
  for (SelectedTile const& one : seen) {
    for_each_bit(one.mask, [&](Row i) {
      if (column.has(one.tile * kTileRows + i)) found[one.tile].set(i);
    });
  }
}

// The rows that share a term with a query.
void add_sparse(SparseColumn const& column, std::span<SparseTerm const> query,
                std::span<SelectedTile const> seen, RowBits& found) {
  RowBits own = bits_of(seen);
  for (HeldTerm const& one : column.held(query)) {
    poll_interrupt();
    for (std::size_t r = column.term_runs[one.number]; r < column.term_runs[one.number + 1]; ++r) {
      SparseColumn::Run const run = column.run(r);
      for (std::uint16_t const row : run.rows) own.set(run.page * kPageRows + row);
    }
  }
  for (SelectedTile const& one : seen)
    found[one.tile] = found[one.tile] | (own[one.tile] & one.mask);
}

// The rows that a text query matches whose leaves have these postings.
void add_texts(LexicalQuery const& query, std::span<LeafPostings const> postings, RowBits& found) {
  auto const add = [postings](std::uint32_t leaf, RowBits& to) {
    poll_interrupt();
    LeafPostings const& one = postings[leaf];
    one.list.for_each(one.begin, one.end, [&](Row row, std::uint32_t) { to.set(row); });
  };
  add_matched(query, add, found);
}

}  // namespace

GroupTiles Execution::matched(std::size_t query, Audiences const& audiences) const {
  require(query < request_.n_queries, "a known query");
  Audience const& whole = audiences.of(kAllTables);
  GroupTiles const& seen = whole.tiles(whole.group_of(query));
  if (request_.n_arms() == 0) return seen;
  GroupTiles out(seen.size());
  for (std::size_t s = 0; s < seen.size(); ++s) {
    RowBits found = bits_of(seen[s]);
    for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
      auto const& text = queries_[arm][query];
      if (text) add_texts(*text, postings_[arm].at(query, s), found);
    }
    for (DenseRequest const& arm : request_.dense) {
      if (arm.completes_only || !arm.has(query)) continue;
      Audience const& own = audiences.of(arm.table);
      auto const& column = snapshot_.segments[s]->segment().p.dense[arm.column];
      auto const& tiles = own.tiles(own.group_of(query))[s];
      if (arm.sparse != nullptr) {
        add_sparse(*column->sparse, (*arm.sparse)[arm.begin + query], tiles, found);
      } else {
        add_vectors(*column, tiles, found);
      }
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
