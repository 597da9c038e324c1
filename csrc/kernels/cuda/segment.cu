// What:   segments, views and tables of the device; the int8 plane of a column is made here.
// In/Out: SegmentParams, ViewParams, TableParams: host arrays, checked by
// device/device_segment.cpp. Launch: take_rows, make_codes: any grid, a warp a
//         vector; join_residuals: any grid, a thread a row.
// Cost:   an upload of every row, or a copy of what lies on the device already; the plane reads
//         each row three times, mostly from cache.
// Oracle: quantize_row of kernels/int8_bound.hpp on the host, bit for bit.
#include <algorithm>
#include <memory>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/postings.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {
namespace {

constexpr unsigned kRowThreads = 256;

// A tensor's rows in a new order (null: in theirs), as the column keeps them: rounded once, to
// nearest, where its type is narrower; those past the end of a tiled plane are 0.
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
    std::uint32_t const from = row < n_rows && order != nullptr ? order[row] : row;
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

// Of each row of many vectors the greatest residual.
__global__ void __launch_bounds__(kRowThreads)
    join_residuals(float const* of_vectors, std::uint32_t const* begins, std::uint32_t n_rows,
                   float* residuals) {
  std::uint32_t const step = gridDim.x * kRowThreads;
  for (std::uint32_t row = blockIdx.x * kRowThreads + threadIdx.x; row < n_rows; row += step) {
    float most = 0.0f;
    for (std::uint32_t v = begins[row]; v < begins[row + 1]; ++v)
      most = of_vectors[v] > most ? of_vectors[v] : most;
    residuals[row] = most;
  }
}

// Rows that have a vector, as [2 * n_tiles] words.
template <typename Has>
std::vector<std::uint64_t> rows_present(DeviceSegmentData const& of, Has&& has) {
  std::vector<std::uint64_t> out(2 * std::size_t{of.n_tiles()}, 0);
  for (std::uint32_t row = 0; row < of.n_rows; ++row)
    if (has(row)) out[row / 64] |= std::uint64_t{1} << row % 64;
  return out;
}

DeviceColumn make_sparse(SparseArrays const& from, DeviceSegmentData& of) {
  auto const present = rows_present(of, [&](std::uint32_t row) { return from.sizes[row] != 0; });
  std::vector<std::uint64_t> begins(from.run_begins.begin(), from.run_begins.end());
  begins.push_back(from.rows.size());
  DeviceColumn out{};
  out.rows.n_rows = of.n_rows;
  out.rows.live = of.memory.upload(present);
  out.rows.seqs = of.seqs;
  out.rows.attributes = of.attributes;
  out.rows.sparse = {of.memory.upload(from.run_pages), of.memory.upload(begins),
                     of.memory.upload(from.rows), of.memory.upload(from.weights), from.is_half};
  return out;
}

DeviceColumn make_column(ColumnParams const& from, DeviceSegmentData& of) {
  if (from.sparse != nullptr) return make_sparse(*from.sparse, of);
  bool const has_many = from.begins != nullptr;
  std::uint32_t const n_rows = has_many ? from.begins[of.n_rows] : of.n_rows;  // of vectors
  DeviceColumn out{from.type, from.dim, 0.0f, {}};
  unsigned const grid = std::clamp(n_rows / (kRowThreads / kLanes), 1u, 1u << 14);
  std::size_t const n_bytes = std::size_t{n_rows} * from.dim * item_bytes(from.type);
  bool const is_tiled = from.type != RowType::kFloat32;
  auto* const rows = of.memory.room<std::uint8_t>(
      is_tiled ? plane_bytes(n_rows, chunks_of(2 * from.dim)) : n_bytes);
  DeviceArrays given;  // until the plane is made
  auto const take = [&](GuestTensor const& tensor, std::uint32_t const* order) {
    check(launch(take_rows, grid, kRowThreads, 0, nullptr, tensor, order, from.type, n_rows, rows));
  };
  if (from.gate != nullptr) {
    std::uint32_t const* const order = given.upload(from.order, n_rows);
    wait_for_guest(from.gate, nullptr);
    take(from.guest, order);
  } else if (is_tiled) {
    GuestType const type =
        from.type == RowType::kFloat16 ? GuestType::kFloat16 : GuestType::kBFloat16;
    take({given.upload(from.rows, n_bytes), from.dim, 1, n_rows, from.dim, type}, nullptr);
  } else if (n_bytes > 0) {
    check(cudaMemcpy(rows, from.rows, n_bytes, cudaMemcpyHostToDevice));
  }
  float const* const norms = of.memory.upload(from.inverse_norms, n_rows);
  auto* const codes = of.memory.room<std::uint8_t>(plane_bytes(n_rows, chunks_of(from.dim)));
  auto* const scales = of.memory.room<float>(n_rows);
  auto* const residuals = of.memory.room<float>(n_rows);
  std::uint32_t bits = 0;
  DeviceArray<std::uint32_t> const greatest(&bits, 1);
  check(launch(make_codes, grid, kRowThreads, 0, nullptr, static_cast<std::uint8_t const*>(rows),
               from.type, n_rows, from.dim, codes, scales, residuals, greatest.data()));
  greatest.download(&bits);  // waits for the kernel: it says whether it failed
  std::memcpy(&out.greatest_residual, &bits, sizeof bits);
  auto const present = rows_present(of, [&](std::uint32_t row) {
    std::uint32_t v = has_many ? from.begins[row] : row;
    std::uint32_t const end = has_many ? from.begins[row + 1] : row + 1;
    while (v < end && from.inverse_norms[v] == 0.0f) ++v;
    return v < end;
  });
  out.rows = {0,         of.n_rows,     of.memory.upload(present),
              of.seqs,   of.attributes, rows,
              norms,     codes,         scales,
              residuals, nullptr,       {}};
  if (!has_many) return out;
  std::uint32_t const* const begins = of.memory.upload(from.begins, of.n_rows + std::size_t{1});
  auto* const of_rows = of.memory.room<float>(of.n_rows);
  check(launch(join_residuals, grid, kRowThreads, 0, nullptr, static_cast<float const*>(residuals),
               begins, of.n_rows, of_rows));
  out.rows.residuals = of_rows;
  out.rows.begins = begins;
  return out;
}

// Of a device, by `make`; searches run on streams of their own.
template <typename Make>
Status create(int device, Object** out, Make&& make) {
  return guarded([&] {
    DeviceScope const device_scope(device);
    std::unique_ptr<Object> made = make();
    check(cudaStreamSynchronize(nullptr));
    *out = made.release();
  });
}

}  // namespace

Status create_segment(SegmentParams const* params, Object** out) {
  return create(params->device, out, [params] {
    auto made = std::make_unique<DeviceSegmentData>(params->device);
    DeviceArrays& memory = made->memory;
    made->n_rows = params->n_rows;
    made->seqs = memory.upload(params->seqs, params->n_rows);
    std::vector<AttributeView> views;
    for (AttributeArrays const& from : params->attributes) {
      auto const given = [&](auto const& array) {
        return array.empty() ? nullptr : memory.upload(array);
      };
      views.push_back({memory.upload(from.codes), given(from.offsets), given(from.valid),
                       memory.upload(from.zones), params->n_rows});
    }
    made->attributes = memory.upload(views);
    for (ColumnParams const& from : params->columns)
      made->columns.push_back(make_column(from, *made));
    for (LexicalArrays const& from : params->lexical)
      made->lexical.push_back(make_lexical(from, memory));
    return made;
  });
}

Status create_view(ViewParams const* params, Object** out) {
  auto const& segment = static_cast<DeviceSegmentData const&>(*params->segment);
  return create(segment.device, out, [params, &segment] {
    auto made = std::make_unique<DeviceView>(segment);
    std::size_t const n_words = 2 * std::size_t{segment.n_tiles()};
    std::vector<std::uint64_t> words(n_words);
    for (DeviceColumn const& column : segment.columns) {
      made->live.push_back(column.rows.live);
      if (params->live == nullptr || n_words == 0) continue;
      check(cudaMemcpy(words.data(), column.rows.live, n_words * sizeof(std::uint64_t),
                       cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < n_words; ++i) words[i] &= params->live[i];
      made->live.back() = made->memory.upload(words);
    }
    if (params->live != nullptr && !segment.lexical.empty())
      made->lexical_live = made->memory.upload(params->live, n_words);
    return made;
  });
}

Status create_table(TableParams const* params, Object** out) {
  return create(params->device, out, [params] {
    auto made = std::make_unique<ColumnTable>(params->device);
    std::vector<DenseSegment> segments;
    std::vector<LexicalSegment> lexical;
    std::vector<std::uint32_t> tiles;
    std::uint32_t first_tile = 0;
    for (Object const* const one : params->views) {
      auto const& view = static_cast<DeviceView const&>(*one);
      DeviceSegmentData const& from = view.segment;
      tiles.push_back(first_tile);
      if (params->is_lexical != 0) {
        lexical.push_back(from.lexical.at(params->column));
        segments.push_back({first_tile,
                            from.n_rows,
                            view.lexical_live,
                            from.seqs,
                            from.attributes,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            nullptr,
                            {}});
        first_tile += (from.n_rows + kDocTileRows - 1) / kDocTileRows * (kDocTileRows / kTileRows);
        continue;
      }
      DeviceColumn const& column = from.columns.at(params->column);
      made->dim = column.dim;
      made->type = column.type;
      made->greatest_residual = std::max(made->greatest_residual, column.greatest_residual);
      DenseSegment& segment = segments.emplace_back(column.rows);
      segment.first_tile = first_tile;
      segment.live = view.live[params->column];
      first_tile += from.n_tiles();
    }
    made->n_segments = static_cast<std::uint32_t>(segments.size());
    made->segments = {segments.data(), segments.size()};
    if (!lexical.empty()) made->lexical = {lexical.data(), lexical.size()};
    made->segment_tiles = {tiles.data(), tiles.size()};
    *params->greatest_residual = made->greatest_residual;
    return made;
  });
}

std::uint64_t segment_bytes(Object const* segment) {
  return static_cast<DeviceSegmentData const*>(segment)->memory.bytes();
}

void destroy(Object* object) {
  if (object == nullptr) return;
  guarded([&] {
    DeviceScope const device_scope(object->device);
    delete object;
  });
}

}  // namespace hyrecall::cuda
