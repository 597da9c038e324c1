// What:   segments, views and tables of the device; the int8 plane of a column is made here.
// In/Out: SegmentParams, ViewParams, TableParams: host arrays, checked by
// device/device_segment.cpp. Launch: tile_rows, take_rows, make_codes: any grid, a warp a row.
// Cost:   an upload of every row, or a copy of what lies on the device already; the plane reads
//         each row three times, mostly from cache.
// Oracle: quantize_row of kernels/int8_bound.hpp on the host, bit for bit.
#include <algorithm>
#include <memory>

#include "kernels/cuda/guest.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {
namespace {

constexpr unsigned kRowThreads = 256;

// Rows of 16-bit values as given become a tiled plane; a warp a row, those past the end are 0.
__global__ void __launch_bounds__(kRowThreads)
    tile_rows(std::uint16_t const* from, std::uint32_t n_rows, std::uint32_t dim,
              std::uint8_t* plane) {
  std::uint32_t const n_warps = gridDim.x * (kRowThreads / kLanes);
  std::uint32_t const first = blockIdx.x * (kRowThreads / kLanes) + threadIdx.x / kLanes;
  std::uint32_t const n_chunks = chunks_of(2 * dim);
  std::uint32_t const n_all = (n_rows + kTileRows - 1) / kTileRows * kTileRows;
  for (std::uint32_t row = first; row < n_all; row += n_warps) {
    for (std::uint32_t i = lane_id(); i < n_chunks * (kChunkBytes / 2); i += kLanes) {
      std::uint16_t const value =
          row < n_rows && i < dim ? from[std::size_t{row} * dim + i] : std::uint16_t{0};
      *reinterpret_cast<std::uint16_t*>(plane + place_in_plane(row, 2 * i, n_chunks)) = value;
    }
  }
}

// Rows of another library's tensor in a new order, as the column keeps them: rounded once, to
// nearest, where its type is narrower.
__global__ void __launch_bounds__(kRowThreads)
    take_rows(GuestTensor guest, std::uint32_t const* order, RowType type, std::uint32_t n_rows,
              std::uint8_t* rows) {
  std::uint32_t const n_warps = gridDim.x * (kRowThreads / kLanes);
  std::uint32_t const first = blockIdx.x * (kRowThreads / kLanes) + threadIdx.x / kLanes;
  bool const is_tiled = type != RowType::kFloat32;
  std::uint32_t const n_chunks = chunks_of(2 * guest.dim);
  std::uint32_t const n_all = is_tiled ? (n_rows + kTileRows - 1) / kTileRows * kTileRows : n_rows;
  std::uint32_t const n_values = is_tiled ? n_chunks * (kChunkBytes / 2) : guest.dim;
  for (std::uint32_t row = first; row < n_all; row += n_warps) {
    std::uint32_t const from = row < n_rows ? order[row] : 0;
    for (std::uint32_t i = lane_id(); i < n_values; i += kLanes) {
      double const value = row < n_rows && i < guest.dim ? guest_value(guest, from, i) : 0.0;
      if (!is_tiled) {
        reinterpret_cast<float*>(rows)[std::size_t{row} * guest.dim + i] =
            static_cast<float>(value);
        continue;
      }
      std::uint16_t const bits =
          type == RowType::kFloat16 ? float16_bits(value) : bfloat16_bits(value);
      *reinterpret_cast<std::uint16_t*>(rows + place_in_plane(row, 2 * i, n_chunks)) = bits;
    }
  }
}

// greatest: bits of the greatest residual; they rise with it, as it is never negative.
__global__ void __launch_bounds__(kRowThreads)
    make_codes(std::uint8_t const* rows, RowType type, std::uint32_t n_rows, std::uint32_t dim,
               std::uint8_t* codes, float* scales, float* residuals, std::uint32_t* greatest) {
  std::uint32_t const n_warps = gridDim.x * (kRowThreads / kLanes);
  std::uint32_t const first = blockIdx.x * (kRowThreads / kLanes) + threadIdx.x / kLanes;
  std::uint32_t const n_chunks = chunks_of(dim);
  std::uint32_t const n_all = (n_rows + kTileRows - 1) / kTileRows * kTileRows;
  for (std::uint32_t row = first; row < n_all; row += n_warps) {
    auto const store = [=](std::uint32_t i, std::int8_t code) {
      codes[place_in_plane(row, i, n_chunks)] = static_cast<std::uint8_t>(code);
    };
    auto const element = [=](std::uint32_t i) { return row_value(rows, type, dim, row, i); };
    bool const is_there = row < n_rows;
    double const norm =
        is_there ? norm_by_warp(dim, [=](std::uint32_t i) { return double{element(i)}; }) : 0.0;
    Int8Row const made = quantize_by_warp(dim, element, norm, store);
    if (lane_id() != 0 || !is_there) continue;
    scales[row] = made.scale;
    residuals[row] = made.residual;
    std::uint32_t bits;
    memcpy(&bits, &made.residual, sizeof bits);
    atomicMax(greatest, bits);
  }
}

DeviceColumn make_column(ColumnParams const& from, std::uint32_t n_rows) {
  DeviceColumn out;
  out.type = from.type;
  out.dim = from.dim;
  unsigned const grid = std::clamp(n_rows / (kRowThreads / kLanes), 1u, 1u << 14);
  std::size_t const n_bytes = std::size_t{n_rows} * from.dim * item_bytes(from.type);
  bool const is_tiled = from.type != RowType::kFloat32;
  std::size_t const n_tiled = plane_bytes(n_rows, chunks_of(2 * from.dim));
  DeviceArray<std::uint8_t> given;
  DeviceArray<std::uint32_t> order;
  if (from.gate != nullptr) {
    order = {from.order, n_rows};
    out.rows = DeviceArray<std::uint8_t>(is_tiled ? n_tiled : n_bytes);
    wait_for_guest(from.gate, nullptr);
    check(launch(take_rows, grid, kRowThreads, 0, nullptr, from.guest,
                 static_cast<std::uint32_t const*>(order.data()), from.type, n_rows,
                 out.rows.data()));
  } else if (!is_tiled) {
    out.rows = {from.rows, n_bytes};
  } else {
    given = {from.rows, n_bytes};
    out.rows = DeviceArray<std::uint8_t>(n_tiled);
    check(launch(tile_rows, grid, kRowThreads, 0, nullptr,
                 reinterpret_cast<std::uint16_t const*>(given.data()), n_rows, out.dim,
                 out.rows.data()));
  }
  out.inverse_norms = {from.inverse_norms, n_rows};
  out.codes = DeviceArray<std::uint8_t>(plane_bytes(n_rows, chunks_of(from.dim)));
  out.scales = DeviceArray<float>(n_rows);
  out.residuals = DeviceArray<float>(n_rows);
  std::uint32_t bits = 0;
  DeviceArray<std::uint32_t> const greatest(&bits, 1);
  check(launch(make_codes, grid, kRowThreads, 0, nullptr,
               static_cast<std::uint8_t const*>(out.rows.data()), out.type, n_rows, out.dim,
               out.codes.data(), out.scales.data(), out.residuals.data(), greatest.data()));
  greatest.download(&bits);  // waits for the kernel: it says whether it failed
  std::memcpy(&out.greatest_residual, &bits, sizeof bits);
  std::uint32_t const n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  std::vector<std::uint64_t> present(2 * std::size_t{n_tiles}, 0);
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    if (from.inverse_norms[row] != 0.0f) present[row / 64] |= std::uint64_t{1} << row % 64;
  }
  out.present = {present.data(), present.size()};
  return out;
}

DeviceAttribute make_attribute(AttributeParams const& from) {
  DeviceAttribute out;
  out.codes = {from.codes.data, from.codes.n};
  out.offsets = {from.offsets.data, from.offsets.n};
  out.valid = {from.valid.data, from.valid.n};
  out.zones = {from.zones.data, from.zones.n};
  return out;
}

LexicalSegment lexical_segment(DeviceLexical const& from) {
  return {from.posting_width,         from.doc_lengths.data(), from.posting_offsets.data(),
          from.postings.data(),       from.run_offsets.data(), from.runs.data(),
          from.escape_offsets.data(), from.escapes.data()};
}

}  // namespace

std::size_t DeviceSegmentData::bytes() const {
  std::size_t total = seqs.bytes() + attribute_views.bytes();
  for (DeviceAttribute const& one : attributes) {
    total += one.codes.bytes() + one.offsets.bytes() + one.valid.bytes() + one.zones.bytes();
  }
  for (DeviceColumn const& one : columns) {
    total += one.rows.bytes() + one.inverse_norms.bytes() + one.codes.bytes() + one.scales.bytes() +
             one.residuals.bytes() + one.present.bytes();
  }
  for (DeviceLexical const& one : lexical) total += one.bytes();
  return total;
}

Status create_segment(SegmentParams const* params, void** out) {
  return guarded([&] {
    DeviceScope const device_scope(params->device);
    auto made = std::make_unique<DeviceSegmentData>();
    made->device = params->device;
    made->n_rows = params->n_rows;
    made->seqs = {params->seqs, params->n_rows};
    std::vector<AttributeView> views;
    for (std::uint64_t i = 0; i < params->attributes.n; ++i) {
      AttributeParams const& from = params->attributes.data[i];
      DeviceAttribute one = make_attribute(from);
      views.push_back({one.codes.data(), from.offsets.n > 0 ? one.offsets.data() : nullptr,
                       from.valid.n > 0 ? one.valid.data() : nullptr, one.zones.data(),
                       params->n_rows});
      made->attributes.push_back(std::move(one));
    }
    made->attribute_views = {views.data(), views.size()};
    for (std::uint64_t i = 0; i < params->columns.n; ++i)
      made->columns.push_back(make_column(params->columns.data[i], params->n_rows));
    for (std::uint64_t i = 0; i < params->lexical.n; ++i)
      made->lexical.push_back(make_lexical(params->lexical.data[i]));
    check(cudaStreamSynchronize(nullptr));  // searches run on streams of their own
    *out = made.release();
  });
}

Status create_view(ViewParams const* params, void** out) {
  return guarded([&] {
    auto const& segment = *static_cast<DeviceSegmentData const*>(params->segment);
    DeviceScope const device_scope(segment.device);
    auto made = std::make_unique<DeviceView>(DeviceView{&segment, {}, {}});
    if (params->live != nullptr) {
      std::size_t const n_words = 2 * std::size_t{segment.n_tiles()};
      std::vector<std::uint64_t> words(n_words);
      for (DeviceColumn const& column : segment.columns) {
        column.present.download(words.data());
        for (std::size_t i = 0; i < n_words; ++i) words[i] &= params->live[i];
        made->live.emplace_back(words.data(), n_words);
      }
      if (!segment.lexical.empty()) made->lexical_live = {params->live, n_words};
    }
    check(cudaStreamSynchronize(nullptr));  // searches run on streams of their own
    *out = made.release();
  });
}

Status create_table(TableParams const* params, void** out) {
  return guarded([&] {
    DeviceScope const device_scope(params->device);
    auto made = std::make_unique<ColumnTable>();
    made->device = params->device;
    std::vector<DenseSegment> segments;
    std::vector<LexicalSegment> lexical;
    std::vector<std::uint32_t> tiles;
    std::uint32_t first_tile = 0;
    for (std::uint64_t i = 0; i < params->views.n; ++i) {
      auto const& view = *static_cast<DeviceView const*>(params->views.data[i]);
      DeviceSegmentData const& from = *view.segment;
      if (params->is_lexical != 0) {
        lexical.push_back(lexical_segment(from.lexical.at(params->column)));
        std::uint64_t const* const live =
            view.lexical_live.size() > 0 ? view.lexical_live.data() : nullptr;
        segments.push_back({first_tile, from.n_rows, live, from.seqs.data(),
                            from.attribute_views.data(), nullptr, nullptr, nullptr, nullptr,
                            nullptr});
        tiles.push_back(first_tile);
        first_tile += (from.n_rows + kDocTileRows - 1) / kDocTileRows * (kDocTileRows / kTileRows);
        continue;
      }
      DeviceColumn const& column = from.columns.at(params->column);
      made->dim = column.dim;
      made->type = column.type;
      made->greatest_residual = std::max(made->greatest_residual, column.greatest_residual);
      segments.push_back({first_tile, from.n_rows, view.live_words(params->column),
                          from.seqs.data(), from.attribute_views.data(), column.rows.data(),
                          column.inverse_norms.data(), column.codes.data(), column.scales.data(),
                          column.residuals.data()});
      tiles.push_back(first_tile);
      first_tile += from.n_tiles();
    }
    made->n_segments = static_cast<std::uint32_t>(segments.size());
    made->segments = {segments.data(), segments.size()};
    if (!lexical.empty()) made->lexical = {lexical.data(), lexical.size()};
    made->segment_tiles = {tiles.data(), tiles.size()};
    *params->greatest_residual = made->greatest_residual;
    check(cudaStreamSynchronize(nullptr));  // searches run on streams of their own
    *out = made.release();
  });
}

void destroy_segment(void* segment) {
  destroy_on_device(static_cast<DeviceSegmentData*>(segment),
                    [](DeviceSegmentData const& one) { return one.device; });
}
void destroy_view(void* view) {
  destroy_on_device(static_cast<DeviceView*>(view),
                    [](DeviceView const& one) { return one.segment->device; });
}
void destroy_table(void* table) {
  destroy_on_device(static_cast<ColumnTable*>(table),
                    [](ColumnTable const& one) { return one.device; });
}

Status measure_usage(void const* segment, Usage* out) {
  out->bytes = static_cast<DeviceSegmentData const*>(segment)->bytes();
  return {};
}

}  // namespace hyrecall::cuda
