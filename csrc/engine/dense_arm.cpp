#include "engine/dense_arm.hpp"

#include <bit>

namespace hyrecall {
namespace {

// The shortest run that holds every selected row of the tile.
RowRange span_of(SelectedTile const& selected) {
  TileMask const m = selected.mask;
  Row const first = m.low != 0 ? static_cast<Row>(std::countr_zero(m.low))
                               : 64 + static_cast<Row>(std::countr_zero(m.high));
  Row const last = m.high != 0 ? 127 - static_cast<Row>(std::countl_zero(m.high))
                               : 63 - static_cast<Row>(std::countl_zero(m.low));
  return {selected.tile * kTileRows + first, selected.tile * kTileRows + last + 1};
}

}  // namespace

void scan_dense(SegmentView const& view, std::uint32_t segment, DenseRequest const& arm,
                std::span<SelectedTile const> tiles, std::span<std::uint32_t const> queries,
                std::span<TopK* const> best) {
  DenseColumn const& column = *view.segment().p.dense[arm.column];
  Buffer<Seq> const& seqs = view.segment().p.seqs;
  float scores[kTileRows];
  for (SelectedTile const& selected : tiles) {
    // One run a tile: a hole costs less than a second call, and its scores are dropped below.
    RowRange const rows = span_of(selected);
    Row const base = selected.tile * kTileRows;
    for (std::size_t q = 0; q < queries.size(); ++q) {
      DenseQuery const& query = arm.query(queries[q]);
      if (query.inverse_norm == 0.0f) continue;
      column.score(query.padded.data(), query.inverse_norm, rows.begin, rows.end,
                   scores + (rows.begin - base));
      for_each_bit(selected.mask, [&](Row i) {
        float const score = scores[i];
        if (score < best[q]->threshold() || !arm.floor.passes(score) || !column.has(base + i))
          return;
        best[q]->offer({score, seqs[base + i], segment, base + i});
      });
    }
  }
}

float score_dense(Segment const& segment, DenseRequest const& arm, std::size_t query, Row row) {
  DenseColumn const& column = *segment.p.dense[arm.column];
  DenseQuery const& q = arm.query(query);
  if (q.inverse_norm == 0.0f || !column.has(row)) return kNoScore;
  float score;
  column.score(q.padded.data(), q.inverse_norm, row, row + 1, &score);
  return score;
}

}  // namespace hyrecall
