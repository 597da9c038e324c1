// What the device holds of an index: segments with their columns, views of them, tables of views.
#pragma once

#include <vector>

#include "kernels/cuda/status.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

struct DeviceColumn {
  RowType type = RowType::kFloat32;
  std::uint32_t dim = 0;
  float greatest_residual = 0.0f;
  DenseSegment rows{};  // as of a table that has no other; live: rows that have a vector
};

struct DeviceSegmentData : Object {
  using Object::Object;

  std::uint32_t n_rows = 0;
  DeviceArrays memory;  // of all arrays
  std::int64_t const* seqs = nullptr;
  AttributeView const* attributes = nullptr;
  std::vector<DeviceColumn> columns;
  std::vector<LexicalSegment> lexical;

  std::uint32_t n_tiles() const { return (n_rows + kTileRows - 1) / kTileRows; }
};

struct DeviceView : Object {
  explicit DeviceView(DeviceSegmentData const& of) : Object(of.device), segment(of) {}

  DeviceSegmentData const& segment;
  DeviceArrays memory;
  std::vector<std::uint64_t const*> live;       // [dense column]
  std::uint64_t const* lexical_live = nullptr;  // of lexical columns; null: every row lives
};

struct ColumnTable : Object {
  using Object::Object;

  DeviceArray<DenseSegment> segments;
  DeviceArray<LexicalSegment> lexical;  // [n_segments]; empty: the column is dense
  DeviceArray<std::uint32_t> segment_tiles;
  std::uint32_t n_segments = 0;
  std::uint32_t dim = 0;
  RowType type = RowType::kFloat32;
  float greatest_residual = 0.0f;
};

}  // namespace hyrecall::cuda
