// What:   collapses near-duplicates of a list: an entry joins the first cluster one of whose
//         members it is closer to than the threshold, else founds one.
// In/Out: ShapeJob: the lists, threshold, preference; kept_for, n_alike.
// Launch: a CTA of kShapeThreads a query, dedup_bytes() of shared memory.
// Cost:   n^2 / 2 cosines. Four entries at a time are compared with all before them, so a row is
//         read n / 4 times; their own values come from the first cache.
// Oracle: engine/shaping/shaping.cpp, bit for bit (tests/native/test_shape_device.cpp).
#include "kernels/cuda/shape.cuh"

namespace hyrecall::cuda {
namespace {

constexpr std::uint32_t kBlock = 4;  // entries

// What each warp's members say of the entries of a block.
struct DedupShared {
  std::uint32_t found[kShapeWarps][kBlock];  // the first cluster before the block that it joins
  std::uint32_t alike[kShapeWarps][kBlock];  // bits: entries of the block that it is a duplicate of
};

// Entries of a list that are compared with others.
struct DedupBlock {
  std::uint32_t first;
  std::uint32_t n;
};

// The dot products of an entry with those of a block: lane k has that of entry k. A warp calls it.
__device__ float dots_with_block(ShapeJob const& job, DedupBlock const& block,
                                 std::uint32_t entry) {
  DenseSegment const& segment = job.segments[job.segment[entry]];
  std::uint32_t const row = job.row[entry];
  float own = 0.0f;
  if (job.row_type != RowType::kFloat32) {
    RowValues const values{segment.rows, job.row_type, job.dim, row};
#pragma unroll 1
    for (std::uint32_t k = 0; k < block.n; ++k) {
      std::uint32_t const at = block.first + k;
      RowValues const others{job.segments[job.segment[at]].rows, job.row_type, job.dim,
                             job.row[at]};
      float const dot =
          shuffle(dot_by_warp<1>(job.dim, values, [&](std::uint32_t i) { return others[i]; }), 0);
      if (lane_id() == k) own = dot;
    }
    return own;
  }
  auto const* const values =
      reinterpret_cast<float const*>(segment.rows) + std::size_t{row} * job.dim;
  // Looked up anew for each entry: they would not fit in registers in the meantime.
  float const* rows[kBlock];
#pragma unroll
  for (std::uint32_t k = 0; k < kBlock; ++k) {  // places behind the list repeat its last entry
    std::uint32_t const at = block.first + (k < block.n ? k : block.n - 1);
    rows[k] = reinterpret_cast<float const*>(job.segments[job.segment[at]].rows) +
              std::size_t{job.row[at]} * job.dim;
  }
  float sums[kBlock] = {};
#pragma unroll 2
  for (std::uint32_t base = 0; base < job.dim; base += kLanes) {
    std::uint32_t const i = base + lane_id();
    bool const is_inside = i < job.dim;  // the definition pads with +0
    float const x = is_inside ? values[i] : 0.0f;
#pragma unroll
    for (std::uint32_t k = 0; k < kBlock; ++k)
      sums[k] = fma_rn(is_inside ? rows[k][i] : 0.0f, x, sums[k]);
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    float const dot = shuffle(fold_warp(sums[k]), 0);
    if (lane_id() == k) own = dot;
  }
  return own;
}

// Adds an entry to its cluster, which is named by its first entry. One thread calls it.
__device__ void join_cluster(ShapeJob const& job, std::uint32_t begin, std::uint32_t place,
                             std::uint32_t cluster) {
  std::uint32_t const at = begin + cluster;
  job.cluster_of[begin + place] = cluster;
  if (cluster == place) {
    job.best_of[at] = place;
    job.sizes[at] = 1;
    return;
  }
  job.sizes[at] += 1;
  if (job.preference != nullptr &&
      job.preference[begin + place] < job.preference[begin + job.best_of[at]])
    job.best_of[at] = place;
}

// The entries of a block in their order. One thread calls it.
__device__ void join_clusters(ShapeJob const& job, std::uint32_t begin, std::uint32_t place,
                              std::uint32_t n, DedupShared const& shared) {
#pragma unroll 1
  for (std::uint32_t k = 0; k < n; ++k) {
    std::uint32_t cluster = place + k;
    std::uint32_t bits = 0;
    for (std::uint32_t warp = 0; warp < kShapeWarps; ++warp) {
      std::uint32_t const found = shared.found[warp][k];
      cluster = found < cluster ? found : cluster;
      bits |= shared.alike[warp][k];
    }
    for (; bits != 0; bits &= bits - 1) {
      std::uint32_t const found = job.cluster_of[begin + place + lowest_bit(bits)];
      cluster = found < cluster ? found : cluster;
    }
    join_cluster(job, begin, place + k, cluster);
  }
}

}  // namespace

std::size_t dedup_bytes() {
  return sizeof(DedupShared);
}

__global__ void __launch_bounds__(kShapeThreads, 8) dedup_lists(ShapeJob const* job_at) {
  ShapeJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.n_queries) return;
  auto& shared = *reinterpret_cast<DedupShared*>(shared_memory());
  std::uint32_t const begin = job.offsets[query];
  std::uint32_t const n = job.offsets[query + 1] - begin;
  std::uint32_t const warp = threadIdx.x / 32;
#pragma unroll 1
  for (std::uint32_t place = 0; place < n; place += kBlock) {
    DedupBlock const block{begin + place, n - place < kBlock ? n - place : kBlock};
    // Lane k looks after entry k.
    std::uint32_t const own = place + lane_id();
    bool const is_compared = lane_id() < block.n && has_vector(job, begin + own);
    std::uint32_t found = own;
    std::uint32_t alike = 0;
#pragma unroll 1
    for (std::uint32_t other = warp; other + 1 < place + block.n; other += kShapeWarps) {
      if (!has_vector(job, begin + other)) continue;  // the whole warp
      float const dot = dots_with_block(job, block, begin + other);
      if (!is_compared || other >= own) continue;
      float const near =
          cosine(dot, inverse_norm_of(job, begin + own), inverse_norm_of(job, begin + other));
      if (!is_duplicate(near, job.is_unit != 0, job.threshold)) continue;
      if (other >= place) {
        alike |= 1u << (other - place);
      } else if (job.cluster_of[begin + other] < found) {
        found = job.cluster_of[begin + other];
      }
    }
    if (lane_id() < kBlock) {
      shared.found[warp][lane_id()] = found;
      shared.alike[warp][lane_id()] = alike;
    }
    sync_block();
    if (threadIdx.x == 0) join_clusters(job, begin, place, block.n, shared);
    sync_block();
  }
#pragma unroll 1
  for (std::uint32_t place = threadIdx.x; place < n; place += kShapeThreads) {
    std::uint32_t const cluster = begin + job.cluster_of[begin + place];
    std::uint32_t const best = job.best_of[cluster];
    job.kept_for[begin + place] = best;
    job.n_alike[begin + place] = best == place ? job.sizes[cluster] : 0;
  }
}

}  // namespace hyrecall::cuda
