#include "engine/pool_on_device.hpp"

#include <algorithm>
#include <limits>

namespace hyrecall {

void FlatLists::add(std::span<Candidate const> list, std::span<std::uint32_t const> first_slots) {
  begins.push_back(static_cast<std::uint32_t>(scores.size()));
  counts.push_back(static_cast<std::uint32_t>(list.size()));
  for (Candidate const& one : list) {
    scores.push_back(one.score);
    seqs.push_back(one.seq);
    slots.push_back(first_slots[one.doc.segment] + one.doc.row);
  }
}

void FlatLists::keep(device::KeptLists const& lists) {
  kept = &lists;
  counts = lists.counts;
  for (std::uint32_t q = 0; q < counts.size(); ++q) begins.push_back(q * lists.depth());
}

void FlatLists::answer(PoolAnswer how) {
  answers.push_back(how);
  is_scored = is_scored || how == PoolAnswer::kCut;
}

device::PoolLists FlatLists::view() const {
  device::PoolLists out{};
  out.kept = kept;
  out.begins = begins;
  out.counts = counts;
  out.scores = scores;
  out.seqs = seqs;
  out.slots = slots;
  out.answers = answers;
  return out;
}

std::vector<std::uint32_t> first_slots_of(Snapshot const& snapshot) {
  std::vector<std::uint32_t> out;
  std::uint32_t slot = 0;
  for (auto const& view : snapshot.segments) {
    out.push_back(slot);
    auto const n_rows = static_cast<std::uint32_t>(view->segment().n_rows());
    slot += (n_rows + kTileRows - 1) / kTileRows * kTileRows;
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
                           std::span<device::PoolLists const> lists) {
  std::size_t const n_arms = lists.size();
  std::size_t const n_queries = lists.front().counts.size();
  ReplyArrays out;
  std::size_t n_hits = 0;
  for (std::size_t q = 0; q < n_queries; ++q) {
    n_hits += found.hit_counts[q];
    out.offsets.push_back(static_cast<std::int64_t>(n_hits));
  }
  out.part.assign(n_hits, 0);
  out.segment.reserve(n_hits);
  out.row.reserve(n_hits);
  out.rank.reserve(n_hits);
  out.score.reserve(n_hits);
  out.arm_scores.reserve(n_hits * n_arms);
  out.arm_ranks.reserve(n_hits * n_arms);
  for (std::size_t q = 0; q < n_queries; ++q) {
    std::size_t const first = q * fusion.limit;
    std::size_t const n = found.hit_counts[q];
    for (std::size_t i = 0; i < n; ++i) {
      out.segment.push_back(found.hit_docs[first + i].segment);
      out.row.push_back(found.hit_docs[first + i].row);
      out.rank.push_back(static_cast<std::int32_t>(fusion.offset + i) + 1);
    }
    out.score.insert(out.score.end(), found.hit_scores + first, found.hit_scores + first + n);
    out.arm_scores.insert(out.arm_scores.end(), found.hit_arm_scores + first * n_arms,
                          found.hit_arm_scores + (first + n) * n_arms);
    out.arm_ranks.insert(out.arm_ranks.end(), found.hit_arm_ranks + first * n_arms,
                         found.hit_arm_ranks + (first + n) * n_arms);
  }
  std::size_t const n_scales = n_queries * scales_a_query(static_cast<std::uint32_t>(n_arms));
  out.scales.assign(found.query_scales, found.query_scales + n_scales);
  for (std::size_t q = 0; q < n_queries; ++q) {
    for (device::PoolLists const& arm : lists)
      out.list_sizes.push_back(static_cast<std::int32_t>(arm.counts[q]));
  }
  return out;
}

}  // namespace hyrecall
