#include "engine/pool_on_device.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel.hpp"

namespace hyrecall {

void FlatLists::add(std::span<Candidate const> list, std::span<std::uint32_t const> tiles) {
  begins.push_back(static_cast<std::uint32_t>(scores.size()));
  counts.push_back(static_cast<std::uint32_t>(list.size()));
  for (Candidate const& one : list) {
    scores.push_back(one.score);
    seqs.push_back(one.seq);
    slots.push_back(tiles[one.doc.segment] * kTileRows + one.doc.row);
  }
}

device::PoolLists FlatLists::view(std::span<std::uint32_t const> tiles) const {
  return {.kind = PoolArmKind::kListed, .here = {tiles, begins, counts, scores, seqs, slots}};
}

std::vector<std::uint32_t> segment_tiles_of(Snapshot const& snapshot) {
  std::vector<std::uint32_t> out;
  std::uint32_t tile = 0;
  for (auto const& view : snapshot.segments) {
    out.push_back(tile);
    auto const n_rows = static_cast<std::uint32_t>(view->segment().n_rows());
    tile += (n_rows + kTileRows - 1) / kTileRows;
  }
  return out;
}

PoolFusion pool_fusion_of(BatchRequest const& request, std::size_t most_docs) {
  Fusion const& fusion = request.fusion;
  PoolFusion out{};
  out.kind = fusion.kind;
  out.is_complete = fusion.complete ? 1 : 0;
  out.n_arms_a_doc = static_cast<std::uint32_t>(request.n_arms());
  out.has_balance = fusion.balance ? 1 : 0;
  out.balance = fusion.balance.value_or(0.0);
  out.ranks_by_place = fusion.ranks_by_place ? 1 : 0;
  out.rank_constant = fusion.rank_constant;
  for (std::size_t arm = 0; arm < request.n_arms(); ++arm) {
    out.weights[arm] = arm < fusion.weights.size() ? fusion.weights[arm] : 1.0;
    out.scales[arm] = arm < fusion.scales.size() ? fusion.scales[arm] : FusionScale::kNone;
  }
  bool const has_floor = request.min_fused.set;
  out.min_fused = has_floor ? request.min_fused.value : -std::numeric_limits<double>::infinity();
  out.is_strict = has_floor && request.min_fused.strict ? 1 : 0;
  out.is_normalized = request.normalize ? 1 : 0;
  out.offset = static_cast<std::uint32_t>(std::min<std::size_t>(request.offset, kMostPoolDocs));
  out.limit = static_cast<std::uint32_t>(std::min(request.limit, most_docs));
  return out;
}

ReplyArrays reply_of_pools(PoolResults const& found, PoolFusion const& fusion,
                           std::span<device::PoolLists const> arms, std::size_t begin,
                           std::size_t end, int threads) {
  std::size_t const n_arms = arms.size();
  ReplyArrays out;
  std::size_t n_hits = 0;
  for (std::size_t q = begin; q < end; ++q) {
    n_hits += found.hit_counts[q];
    out.offsets.push_back(static_cast<std::int64_t>(n_hits));
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      bool const is_here = arms[arm].search == nullptr;
      out.list_sizes.push_back(
          static_cast<std::int32_t>(is_here ? arms[arm].here.counts[q] : found.counts[arm][q]));
    }
  }
  out.make_room(n_arms);
  std::size_t const n_scales = scales_a_query(static_cast<std::uint32_t>(n_arms));
  out.scales.assign(found.query_scales + begin * n_scales, found.query_scales + end * n_scales);
  parallel_runs(end - begin, kShortRun, threads, [&](int, std::size_t i) {
    std::size_t const first = (begin + i) * fusion.limit;
    std::size_t const n = found.hit_counts[begin + i];
    auto const to = static_cast<std::size_t>(out.offsets[i]);
    for (std::size_t hit = 0; hit < n; ++hit) {
      out.segment[to + hit] = found.hit_docs[first + hit].segment;
      out.row[to + hit] = found.hit_docs[first + hit].row;
      out.rank[to + hit] = static_cast<std::int32_t>(fusion.offset + hit) + 1;
    }
    std::copy_n(found.hit_scores + first, n, out.score.data() + to);
    std::copy_n(found.hit_arm_scores + first * n_arms, n * n_arms,
                out.arm_scores.data() + to * n_arms);
    std::copy_n(found.hit_arm_ranks + first * n_arms, n * n_arms,
                out.arm_ranks.data() + to * n_arms);
  });
  return out;
}

}  // namespace hyrecall
