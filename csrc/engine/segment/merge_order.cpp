#include "engine/segment/merge_order.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/interrupt.hpp"

namespace hyrecall {
namespace {

using Views = std::span<std::shared_ptr<SegmentView const> const>;

// The cells of all views, in byte order.
std::vector<std::string_view> all_cells(Views views) {
  std::vector<std::string_view> cells;
  for (auto const& view : views) {
    CellDirectory const& directory = view->segment().p.cells;
    for (std::size_t cell = 0; cell < directory.size(); ++cell)
      cells.push_back(directory.key(cell));
  }
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  return cells;
}

}  // namespace

MergeOrder merge_order(Views views, std::span<std::span<std::int64_t const> const> cluster,
                       std::span<RowRange const> part) {
  require(cluster.empty() || cluster.size() == views.size(), "cluster values of every view");
  for (std::size_t v = 0; v < cluster.size(); ++v)
    require(cluster[v].size() == views[v]->segment().n_rows(), "a cluster value a row");
  require(part.empty() || part.size() == views.size(), "rows of every view");
  std::vector<std::string_view> const cells = all_cells(views);

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
    segment.check();
    for (std::uint32_t cell = 0; cell < segment.p.cells.size(); ++cell) {
      RowRange rows = segment.p.cells.rows(cell);
      if (!part.empty())
        rows = {std::max(rows.begin, part[v].begin), std::min(rows.end, part[v].end)};
      if (rows.begin >= rows.end) continue;
      auto const place = std::lower_bound(cells.begin(), cells.end(), segment.p.cells.key(cell));
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

MergeCuts cut_merge(Views views, std::size_t most_rows) {
  std::vector<std::string_view> const cells = all_cells(views);
  MergeCuts cuts{std::vector<Row>(views.size(), 0), cells.size()};
  std::vector<std::uint32_t> next(views.size(), 0);  // per view the next of its cells
  std::vector<Row> at(views.size(), 0);              // where that begins
  std::size_t n_held = 0;
  for (std::string_view const cell : cells) {
    std::size_t n_rows = 0;
    std::vector<Row> const before = at;
    for (std::size_t v = 0; v < views.size(); ++v) {
      CellDirectory const& directory = views[v]->segment().p.cells;
      if (next[v] == directory.size() || directory.key(next[v]) != cell) continue;
      at[v] = directory.rows(next[v]++).end;
      n_rows += at[v] - before[v];
    }
    if (n_held > 0 && n_held + n_rows > most_rows) {
      cuts.begins.insert(cuts.begins.end(), before.begin(), before.end());
      n_held = 0;
    }
    n_held += n_rows;
  }
  cuts.begins.insert(cuts.begins.end(), at.begin(), at.end());
  return cuts;
}

}  // namespace hyrecall
