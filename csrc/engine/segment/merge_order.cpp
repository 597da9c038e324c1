#include "engine/segment/merge_order.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/interrupt.hpp"

namespace hyrecall {

MergeOrder merge_order(std::span<std::shared_ptr<SegmentView const> const> views,
                       std::span<std::span<std::int64_t const> const> cluster) {
  require(cluster.empty() || cluster.size() == views.size(), "cluster values of every view");
  for (std::size_t v = 0; v < cluster.size(); ++v)
    require(cluster[v].size() == views[v]->segment().n_rows(), "a cluster value a row");
  std::vector<std::string_view> cells;
  for (auto const& view : views) {
    CellDirectory const& directory = view->segment().p.cells;
    for (std::size_t cell = 0; cell < directory.size(); ++cell)
      cells.push_back(directory.key(cell));
  }
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());

  struct LiveRow {
    std::uint32_t cell;
    std::int64_t cluster;
    Seq seq;
    std::uint32_t source;
    Row row;
  };
  std::vector<LiveRow> found;
  SteadyPoll poll;
  for (std::uint32_t v = 0; v < views.size(); ++v) {
    Segment const& segment = views[v]->segment();
    for (std::uint32_t cell = 0; cell < segment.p.cells.size(); ++cell) {
      auto const place = std::lower_bound(cells.begin(), cells.end(), segment.p.cells.key(cell));
      RowRange const rows = segment.p.cells.rows(cell);
      for (Row row = rows.begin; row < rows.end; ++row) {
        poll.step();
        if (!views[v]->live()[row]) continue;
        found.push_back({static_cast<std::uint32_t>(place - cells.begin()),
                         cluster.empty() ? 0 : cluster[v][row], segment.p.seqs[row], v, row});
      }
    }
  }
  std::sort(found.begin(), found.end(), [&poll](LiveRow const& a, LiveRow const& b) {
    poll.step();
    return std::tie(a.cell, a.cluster, a.seq) < std::tie(b.cell, b.cluster, b.seq);
  });
  MergeOrder order;
  order.source.reserve(found.size());
  order.source_row.reserve(found.size());
  for (LiveRow const& e : found) {
    order.source.push_back(e.source);
    order.source_row.push_back(e.row);
  }
  return order;
}

}  // namespace hyrecall
