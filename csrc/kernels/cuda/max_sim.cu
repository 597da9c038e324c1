// What:   the first pass over rows of many vectors: of each row in scope the sum, over the query's
//         vectors, of the greatest product with one of the row's, as a lower bound of its score.
// In/Out: DenseJob with vector_begins: queries, first_visits, int8 planes; the job's bounds, norms
//         and cuts, and a lower score a row, as of a query that reads all of its tiles first.
// Launch: kManyCtas a multiprocessor. prepare_many: a CTA a query, then a thread a visit;
//         scan_many: a CTA takes 32 rows of a visit, a warp a row, with many_bytes().
// Cost:   n_vectors x plane_chunks x 128 bytes a query, from L2 where queries read a tile together;
//         2 x n_vectors x dim x n_query_vectors operations.
// Oracle: the CPU path, bit for bit (tests/laws/test_vector_forms.py,
// tests/native/test_max_sim_device.cpp).
//
// The bound. Of query vector j and a row's vector t the score s lies within r_t f_j + c_j of the
// product a (kernels/int8_bound.hpp), so max_t s lies within R f_j + c_j of max_t a, where R is the
// greatest r_t of the row. Summed over j: the row's score lies within R P + C of the sum S of the
// greatest products. So S is to R, P and C what a product is to its residual, factor and constant,
// and all that reads lower scores reads these. Roundings: |S| <= 4 n for n vectors, and R P <= 4 n,
// so that each of the few sums and products of float32 here, in reach_of_lower() and in the
// canonical score errs by less than n 2^-20: C has n 2^-16 for them.
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/max_sim.cuh"
#include "kernels/cuda/visit_lists.cuh"

namespace hyrecall::cuda {
namespace {

constexpr double kRoundings = 0x1p-16;
constexpr std::uint32_t kUnitRows = 32;  // of a visit, that a CTA takes at a time
constexpr std::uint32_t kUnits = kTileRows / kUnitRows;
constexpr std::uint32_t kManyWarps = kManyThreads / kLanes;
constexpr std::uint32_t kRowsAtOnce = 16;  // vectors of a row

struct ManyShared {
  double sums[kUnitRows];  // of each row, over the panels so far; only its warp touches it
  FourWords panel[1];      // kPanelPieces a chunk
};
constexpr std::size_t kPanelBegin = offsetof(ManyShared, panel);

// Vector `place` of a query's panels, or the zeros behind the last; a warp calls it.
__device__ void prepare_vector(DenseJob const& job, std::uint32_t query, std::uint32_t place) {
  std::uint32_t const vector = job.vector_begins[query] + place;
  std::uint8_t* const to = panel_at(job, first_panel(job, query) + place / kPanelVectors);
  auto const store = [=](std::uint32_t i, std::int8_t code) {
    std::uint32_t const piece = i % kChunkBytes / kPieceBytes;
    std::uint32_t const at = place_in_panel(place % kPanelVectors, i / kChunkBytes, piece);
    to[std::size_t{at} * kPieceBytes + i % kPieceBytes] = static_cast<std::uint8_t>(code);
  };
  if (vector >= job.vector_begins[query + 1]) {
    for (std::uint32_t i = lane_id(); i < job.plane_chunks * kChunkBytes; i += kLanes) store(i, 0);
    return;
  }
  float const* const values = job.queries + std::size_t{vector} * job.dim;
  double const norm =
      norm_by_warp(job.dim, [values](std::uint32_t i) { return double{values[i]}; });
  Int8Row const made =
      quantize_by_warp(job.dim, [values](std::uint32_t i) { return values[i]; }, norm, store);
  if (lane_id() != 0) return;
  job.inverse_query_norms[vector] = inverse_norm(norm);
  job.query_scales[vector] = made.scale;
  job.vector_bounds[vector] = query_bound(job.plane, job.dim, made.residual);
}

// When all vectors of the query are prepared; a thread calls it.
__device__ void prepare_query(DenseJob const& job, std::uint32_t query) {
  double factor = 0.0;
  double constant = 0.0;
  std::uint32_t const end = job.vector_begins[query + 1];
  for (std::uint32_t v = job.vector_begins[query]; v < end; ++v) {
    factor += job.vector_bounds[v].per_residual;
    constant += job.vector_bounds[v].constant + kRoundings;
  }
  QueryBound const bound{float_up(factor), float_up(constant)};
  float const least = job.floors[query];
  job.bounds[query] = bound;
  job.thresholds[query] = least;
  job.guesses[query] = -__builtin_inff();
  job.cuts[query] = cut_for(least, bound);
  job.counts[query] = 0;
  job.overflows[query] = 0;
  job.tickets[query] = 0;
}

// The products of a panel with all vectors of a row; a warp.
class RowProducts {
 public:
  // n: vectors of the panel.
  __device__ RowProducts(DenseJob const& job, DenseSegment const& segment, FourWords const* panel,
                         std::uint32_t n)
      : job_(job), segment_(segment), panel_(panel), n_(n) {}

  // Over the panel's vectors, the sum of the greatest products; scales: of these vectors.
  __device__ double sum_of_greatest(std::uint32_t row, float const* scales) const {
    float best[kVectorBlocks][2];
    for (auto& block : best) block[0] = block[1] = -__builtin_inff();
    std::uint32_t const begin = segment_.begins[row];
    std::uint32_t const end = segment_.begins[row + 1];
    std::uint32_t const n_chunks = job_.plane_chunks;
    std::int32_t sums[kVectorBlocks][4] = {};
    std::uint32_t vector = begin + lane_id() / 4;  // of this lane, and + 8
    std::uint32_t chunk = 0;
    Pieces next = load(vector, end, chunk);
#pragma unroll 1
    for (std::uint32_t first = begin; first < end;) {
      Pieces const own = next;
      std::uint32_t const at = chunk;
      bool const is_last = ++chunk == n_chunks;
      if (is_last) chunk = 0;
      next = load(is_last ? vector + kRowsAtOnce : vector, end, chunk);
      multiply_chunk(own, at, sums);
      if (!is_last) continue;
      raise(vector, end, sums, best);
      first += kRowsAtOnce;
      vector += kRowsAtOnce;
    }
    double sum = 0.0;
#pragma unroll
    for (std::uint32_t block = 0; block < kVectorBlocks; ++block) {
#pragma unroll
      for (std::uint32_t c = 0; c < 2; ++c) {
        float most = best[block][c];
#pragma unroll
        for (unsigned by = 4; by < kLanes; by *= 2) {
          float const other = shuffle(most, lane_id() ^ by);
          most = other > most ? other : most;
        }
        std::uint32_t const column = 8 * block + lane_id() % 4 * 2 + c;
        if (column < n_) sum += double{most * scales[column]};
      }
    }
    sum += shuffle(sum, lane_id() ^ 1);
    return sum + shuffle(sum, lane_id() ^ 2);
  }

 private:
  // Of a lane's two vectors of a row, two pieces each.
  struct Pieces {
    FourWords of[2][2];
  };

  __device__ Pieces load(std::uint32_t vector, std::uint32_t end, std::uint32_t chunk) const {
    Pieces out;
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
      // Past the end the last again, which costs no memory.
      std::uint32_t const own = vector + 8 * i < end ? vector + 8 * i : end - 1;
#pragma unroll
      for (std::uint32_t half = 0; half < 2; ++half) {
        std::uint32_t const piece = lane_id() % 4 + 4 * half;
        std::size_t const at =
            place_in_plane(own, chunk * kChunkBytes + piece * kPieceBytes, job_.plane_chunks);
        out.of[i][half] = *reinterpret_cast<FourWords const*>(segment_.codes + at);
      }
    }
    return out;
  }

  __device__ void multiply_chunk(Pieces const& rows, std::uint32_t chunk,
                                 std::int32_t (&sums)[kVectorBlocks][4]) const {
#pragma unroll
    for (std::uint32_t block = 0; block < kVectorBlocks; ++block) {
      if (8 * block >= n_) break;  // the same for all lanes
      FourWords const* const at = panel_ + (chunk * kVectorBlocks + block) * 2 * kLanes;
      FourWords const low = at[lane_id()];
      FourWords const high = at[kLanes + lane_id()];
#pragma unroll
      for (std::uint32_t word = 0; word < 4; ++word) {
        std::uint32_t const of_rows[4] = {rows.of[0][0].values[word], rows.of[1][0].values[word],
                                          rows.of[0][1].values[word], rows.of[1][1].values[word]};
        std::uint32_t const queries[2] = {low.values[word], high.values[word]};
        multiply(Int8{}, sums[block], of_rows, queries);
      }
    }
  }

  // By the sums of 16 vectors of the row, which become 0 again.
  __device__ void raise(std::uint32_t vector, std::uint32_t end,
                        std::int32_t (&sums)[kVectorBlocks][4],
                        float (&best)[kVectorBlocks][2]) const {
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
      std::uint32_t const own = vector + 8 * i;
      float const scale = own < end ? segment_.scales[own] : 0.0f;
#pragma unroll
      for (std::uint32_t block = 0; block < kVectorBlocks; ++block) {
#pragma unroll
        for (std::uint32_t c = 0; c < 2; ++c) {
          float const one = static_cast<float>(sums[block][2 * i + c]) * scale;
          // A scale of 0: past the end, or missing.
          if (scale != 0.0f && one > best[block][c]) best[block][c] = one;
          sums[block][2 * i + c] = 0;
        }
      }
    }
  }

  DenseJob const& job_;
  DenseSegment const& segment_;
  FourWords const* const panel_;
  std::uint32_t const n_;
};

class ManyScan {
 public:
  __device__ explicit ManyScan(DenseJob const& job) : job_(job) {}

  // Rows [32 part, 32 part + 32) of a visit; the CTA calls it.
  __device__ void run(QueuedVisit const& visit, std::uint32_t part) {
    OwnTile const tile = own_tile(job_, visit);
    std::uint32_t const query = tile.query;
    DenseSegment const& segment = job_.segments[visit.segment];
    std::uint32_t const first = (visit.tile - segment.first_tile) * kTileRows;
    std::uint32_t const begin = job_.vector_begins[query];
    std::uint32_t const n_vectors = job_.vector_begins[query + 1] - begin;
#pragma unroll 1
    for (std::uint32_t at = 0; at < n_vectors; at += kPanelVectors) {
      std::uint32_t const n = n_vectors - at < kPanelVectors ? n_vectors - at : kPanelVectors;
      FourWords const* const panel = stage(first_panel(job_, query) + at / kPanelVectors);
      RowProducts const products(job_, segment, panel, n);
#pragma unroll 1
      for (std::uint32_t i = warp(); i < kUnitRows; i += kManyWarps) {
        if (!tile.mask.test(part * kUnitRows + i)) continue;
        double const sum =
            products.sum_of_greatest(first + part * kUnitRows + i, job_.query_scales + begin + at);
        if (lane_id() == 0) shared().sums[i] = (at > 0 ? shared().sums[i] : 0.0) + sum;
      }
    }
    for (std::uint32_t i = warp(); i < kUnitRows && lane_id() == 0; i += kManyWarps) {
      std::uint32_t const row = part * kUnitRows + i;
      std::uint32_t key = 0;
      if (tile.mask.test(row)) {
        key =
            score_key(lower_score(static_cast<float>(shared().sums[i]),
                                  segment.residuals[first + row], job_.bounds[query].per_residual));
      }
      tile.keys[row] = key;
    }
  }

 private:
  __device__ static ManyShared& shared() { return *reinterpret_cast<ManyShared*>(shared_memory()); }
  __device__ static std::uint32_t warp() { return threadIdx.x / kLanes; }

  // A panel in shared memory, if it fits there.
  __device__ FourWords const* stage(std::uint32_t panel) {
    auto const* const from = reinterpret_cast<FourWords const*>(panel_at(job_, panel));
    if (job_.plane_chunks > kStagedChunks) return from;
    if (panel != staged_) {
      sync_block();  // nobody reads the old one any more
      for (std::uint32_t i = threadIdx.x; i < job_.plane_chunks * kPanelPieces; i += kManyThreads)
        shared().panel[i] = from[i];
      staged_ = panel;
      sync_block();  // all of it is there
    }
    return shared().panel;
  }

  DenseJob const& job_;
  std::uint32_t staged_ = kNone32;
};

}  // namespace

std::size_t many_bytes(std::uint32_t n_chunks) {
  std::size_t const staged = n_chunks <= kStagedChunks ? n_chunks : 0;
  return kPanelBegin + staged * kPanelPieces * kPieceBytes;
}

__global__ void __launch_bounds__(kPrepareThreads) prepare_many(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const own_warps = kPrepareThreads / kLanes;
  std::uint32_t const warp = threadIdx.x / kLanes;
  for (std::uint32_t query = blockIdx.x; query < job.batch.n_queries; query += gridDim.x) {
    std::uint32_t const n = job.vector_begins[query + 1] - job.vector_begins[query];
    std::uint32_t const n_panels = (n + kPanelVectors - 1) / kPanelVectors;
    for (std::uint32_t place = warp; place < n_panels * kPanelVectors; place += own_warps)
      prepare_vector(job, query, place);
    sync_block();  // all vectors of the query are prepared
    if (threadIdx.x == 0) prepare_query(job, query);
  }
  list_visits<false>(job, blockIdx.x * own_warps + warp, gridDim.x * own_warps);
}

__global__ void __launch_bounds__(kManyThreads, kManyCtas) scan_many(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  ManyScan scan(job);
  std::uint64_t const n_units = std::uint64_t{job.batch.n_first} * kUnits;
  for (std::uint64_t unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
    Visit const visit = job.first_visits[unit / kUnits];
    if (visit.tile_class() == TileClass::kEmpty) continue;
    scan.run(queued(job, visit), static_cast<std::uint32_t>(unit % kUnits));
  }
}

}  // namespace hyrecall::cuda
