// Putting segments together: which live row goes where.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

struct MergeOrder {
  std::vector<std::uint32_t> source;  // [n_live] index of the view
  std::vector<Row> source_row;        // [n_live] row in it
};

// Live rows of all views by (cell, cluster, seq). cluster: per view a code per row, or none at all.
// part: per view the rows that are wanted, or none at all for every row.
MergeOrder merge_order(std::span<std::shared_ptr<SegmentView const> const> views,
                       std::span<std::span<std::int64_t const> const> cluster,
                       std::span<RowRange const> part = {});

// Cuts a merge of views between cells, into parts of at most so many rows each; a part with more
// has a single cell.
struct MergeCuts {
  std::vector<Row> begins;  // [n_parts + 1, n_views] first row of each part
  std::size_t n_cells = 0;  // of all views together
};
MergeCuts cut_merge(std::span<std::shared_ptr<SegmentView const> const> views,
                    std::size_t most_rows);

// Throws unless there are columns and each (source, source_row) is a row of one.
template <typename Column>
void check_sources(std::span<std::shared_ptr<Column const> const> columns,
                   std::span<std::uint32_t const> source, std::span<Row const> source_row) {
  require(!columns.empty() && source.size() == source_row.size(),
          "a column, and a row for each source");
  for (std::size_t i = 0; i < source.size(); ++i) {
    require(source[i] < columns.size() && source_row[i] < columns[source[i]]->n_rows(),
            "rows of the columns");
  }
}

}  // namespace hyrecall
