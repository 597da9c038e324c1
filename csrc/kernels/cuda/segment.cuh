// What the device holds of an index: segments with their columns, views of them, tables of views.
#pragma once

#include <vector>

#include "kernels/cuda/postings.cuh"
#include "kernels/cuda/status.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

struct DeviceColumn {
  RowType type = RowType::kFloat32;
  std::uint32_t dim = 0;
  DeviceArray<std::uint8_t> rows;    // see DenseSegment
  DeviceArray<float> inverse_norms;  // [n_rows]
  DeviceArray<std::uint8_t> codes;   // tiled
  DeviceArray<float> scales;         // [n_rows]
  DeviceArray<float> residuals;      // [n_rows]
  float greatest_residual = 0.0f;
  DeviceArray<std::uint64_t> present;  // [2 * n_tiles] rows that have a vector
};

struct DeviceAttribute {
  DeviceArray<std::int64_t> codes;
  DeviceArray<std::int64_t> offsets;
  DeviceArray<std::uint64_t> valid;
  DeviceArray<Zone> zones;
};

struct DeviceSegmentData {
  int device = 0;
  std::uint32_t n_rows = 0;
  DeviceArray<std::int64_t> seqs;
  std::vector<DeviceAttribute> attributes;
  DeviceArray<AttributeView> attribute_views;
  std::vector<DeviceColumn> columns;
  std::vector<DeviceLexical> lexical;

  std::uint32_t n_tiles() const { return (n_rows + kTileRows - 1) / kTileRows; }
  std::size_t bytes() const;
};

struct DeviceView {
  DeviceSegmentData const* segment;
  std::vector<DeviceArray<std::uint64_t>> live;  // [dense column]; empty: every row lives
  DeviceArray<std::uint64_t> lexical_live;       // of lexical columns; empty: every row lives

  std::uint64_t const* live_words(std::uint32_t column) const {
    return live.empty() ? segment->columns[column].present.data() : live[column].data();
  }
};

struct ColumnTable {
  int device = 0;
  DeviceArray<DenseSegment> segments;
  DeviceArray<LexicalSegment> lexical;  // [n_segments]; empty: the column is dense
  DeviceArray<std::uint32_t> segment_tiles;
  std::uint32_t n_segments = 0;
  std::uint32_t dim = 0;
  RowType type = RowType::kFloat32;
  float greatest_residual = 0.0f;
};

Status create_segment(SegmentParams const* params, void** out);
Status create_view(ViewParams const* params, void** out);
Status create_table(TableParams const* params, void** out);
void destroy_segment(void* segment);
void destroy_view(void* view);
void destroy_table(void* table);
Status measure_usage(void const* segment, Usage* out);

}  // namespace hyrecall::cuda
