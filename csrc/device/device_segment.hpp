// What a CUDA device holds of an index: segments, views of them, tables of views.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_guest.hpp"
#include "kernels/int8_bound.hpp"
#include "kernels/shared/dense_rows.hpp"
#include "kernels/shared/postings.hpp"
#include "kernels/shared/sparse_job.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall::device {

// A dense column in host memory.
struct ColumnArrays {
  RowType type;
  std::uint32_t dim;
  std::uint8_t const* rows;    // [n_rows, dim] of type
  float const* inverse_norms;  // [n_rows], 0: no vector
  // The same rows as they lie on the device: row r is the guest's order[r]. Then rows are not read.
  Guest const* guest = nullptr;
  std::span<std::uint32_t const> order{};
  // Of rows of many vectors: [n_rows + 1] which each has; rows and norms are of vectors then.
  std::span<std::uint32_t const> begins{};
  SparseArrays const* sparse = nullptr;  // instead: the rows are sparse
};

// Up to here the first pass's error is bounded. Of many vectors it reads the int8 plane alone.
constexpr std::size_t max_device_dim(RowType type, bool has_many = false) {
  bool const reads_rows = type == RowType::kBFloat16 && !has_many;
  return max_first_pass_dim(reads_rows ? FirstPassPlane::kBFloat16 : FirstPassPlane::kInt8);
}

// All constructors throw kDeviceUnavailable or kDeviceMemory, naming cuda:N; nothing is left
// behind.
class DeviceSegment {
 public:
  // folder: where libhyrecall_cuda.so lies.
  DeviceSegment(std::string const& folder, int ordinal, std::span<std::int64_t const> seqs,
                std::span<AttributeArrays const> attributes, std::span<ColumnArrays const> columns,
                std::span<LexicalArrays const> lexical = {});

  std::string const& folder() const { return folder_; }
  int ordinal() const { return ordinal_; }
  std::uint32_t n_rows() const { return n_rows_; }
  std::size_t n_lexical() const { return n_lexical_; }  // columns
  std::uint64_t bytes() const;                          // of device memory
  cuda::Object* handle() const { return handle_.get(); }

 private:
  std::string folder_;
  int ordinal_;
  std::uint32_t n_rows_;
  std::size_t n_lexical_;
  Handle handle_;
};

// A segment less its dead rows.
class DeviceView {
 public:
  // live: [2 * n_tiles] words; empty: every row lives.
  DeviceView(std::shared_ptr<DeviceSegment const> segment, std::span<std::uint64_t const> live);

  std::shared_ptr<DeviceSegment const> const& segment() const { return segment_; }
  cuda::Object* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<DeviceSegment const> segment_;
  Handle handle_;
};

class SearchQueue;

// One column of all segments of a snapshot. Row r of view i is slot first_slots()[i] + r.
class DeviceTable {
 public:
  // Of a dense column. At least one view, all on one device.
  DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column,
              RowType type, std::uint32_t dim);
  // Of a lexical column.
  DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column);

  std::string const& folder() const { return views_.front()->segment()->folder(); }
  int ordinal() const { return views_.front()->segment()->ordinal(); }
  // Its segments begin at multiples of so many slots.
  std::uint32_t tile_rows() const { return is_lexical_ ? kDocTileRows : kTileRows; }
  bool is_lexical() const { return is_lexical_; }
  RowType type() const { return type_; }                          // of a dense column
  std::uint32_t dim() const { return dim_; }                      // of a dense column
  float greatest_residual() const { return greatest_residual_; }  // in the int8 plane
  std::span<std::uint32_t const> first_slots() const { return first_slots_; }
  cuda::Object* handle() const { return handle_.get(); }
  SearchQueue& queue() const { return *queue_; }

 private:
  Handle make(std::uint32_t column);

  std::vector<std::shared_ptr<DeviceView const>> views_;
  std::vector<std::uint32_t> first_slots_;  // [n_views]
  bool is_lexical_;
  RowType type_ = RowType::kFloat32;
  std::uint32_t dim_ = 0;
  float greatest_residual_ = 0.0f;
  std::shared_ptr<SearchQueue> queue_;
  Handle handle_;
};

}  // namespace hyrecall::device
