// Random lists of up to four arms, and what the host makes of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "device/pool_device.hpp"
#include "engine/merge_parts.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {

// A batch of lists: what the host gets, and the same as flat arrays.
struct PoolCase {
  BatchRequest request;
  std::vector<QueryCandidates> pools;
  std::vector<std::uint32_t> first_slots;
  struct Flat {
    std::vector<std::uint32_t> begins, counts, slots;
    std::vector<float> scores;
    std::vector<Seq> seqs;
  };
  std::vector<Flat> arms;
};

// Scores of few values, and some that differ in their last bits; a listed one may be -0.
inline float list_score(Rng& rng, bool is_listed) {
  std::size_t const way = rng.below(std::size_t{8});
  if (way == 0 && is_listed) return -0.0f;
  if (way < 4) return static_cast<float>(rng.below(7)) - 2.0f;
  return static_cast<float>(rng.unit() * (way < 6 ? 1.0 : 1e-3));
}

// A query's union by the words of its definition: every document once, by seq, or as the one list.
inline QueryCandidates union_of(PoolCase const& from, std::size_t query) {
  std::size_t const n_arms = from.arms.size();
  struct Entry {
    Seq seq;
    DocRef doc;
  };
  std::vector<Entry> all;
  for (PoolCase::Flat const& arm : from.arms) {
    for (std::uint32_t i = 0; i < arm.counts[query]; ++i) {
      std::uint32_t const at = arm.begins[query] + i;
      auto const after =
          std::upper_bound(from.first_slots.begin(), from.first_slots.end(), arm.slots[at]);
      auto const segment = static_cast<std::uint32_t>(after - from.first_slots.begin() - 1);
      all.push_back({arm.seqs[at], {segment, arm.slots[at] - from.first_slots[segment]}});
    }
  }
  if (n_arms > 1) {
    std::sort(all.begin(), all.end(), [](Entry const& a, Entry const& b) { return a.seq < b.seq; });
    all.erase(std::unique(all.begin(), all.end(),
                          [](Entry const& a, Entry const& b) { return a.seq == b.seq; }),
              all.end());
  }
  QueryCandidates out;
  for (Entry const& one : all) out.docs.push_back({one.seq, one.doc});
  out.scores.assign(all.size() * n_arms, kNoScore);
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    out.lists.emplace_back();
    for (std::uint32_t i = 0; i < from.arms[arm].counts[query]; ++i) {
      Seq const seq = from.arms[arm].seqs[from.arms[arm].begins[query] + i];
      auto const at = static_cast<std::size_t>(
          std::find_if(all.begin(), all.end(), [&](Entry const& e) { return e.seq == seq; }) -
          all.begin());
      out.scores[at * n_arms + arm] = from.arms[arm].scores[from.arms[arm].begins[query] + i];
      out.lists[arm].push_back(static_cast<std::uint32_t>(at));
    }
  }
  return out;
}

inline Fusion random_fusion(Rng& rng, BatchRequest const& request) {
  using enum Fusion::Scale;
  Fusion out;
  std::size_t const n_arms = request.n_arms();
  std::size_t const way = rng.below(std::size_t{n_arms == 1 ? 4u : 3u});
  out.kind = std::array{Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum, Fusion::Kind::kMax,
                        Fusion::Kind::kNone}[way];
  out.rank_constant = 1.0 + rng.below(60);
  out.complete = rng.below(2) == 0;
  out.ranks_by_place = rng.below(4) == 0;
  bool const is_dbsf = rng.below(3) == 0;
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    Fusion::Scale const scale =
        std::array{kNone, kMinmax, kDistribution, kBest, kClip, kUnit}[rng.below(std::size_t{6})];
    out.scales.push_back(is_dbsf ? kDistribution : scale);
    out.weights.push_back(rng.below(5) * 0.35);
  }
  if (out.kind == Fusion::Kind::kWeightedSum && rng.below(2) == 0)
    out.balance = std::array{0.0, 0.3, 0.5, 1.0}[rng.below(std::size_t{4})];
  return out;
}

// Limit, offset, floor and normalisation; the floor is often a score that a document has.
inline void set_cut(Rng& rng, BatchRequest& request, std::vector<QueryCandidates> const& pools) {
  request.offset = rng.below(3) == 0 ? rng.below(std::size_t{8}) : 0;
  request.limit = rng.below(4) == 0 ? 5'000 : rng.below(std::size_t{30});
  request.normalize = rng.below(3) == 0;
  if (rng.below(3) != 0) return;
  BatchRequest whole = request;
  whole.offset = 0;
  whole.limit = 5'000;
  whole.normalize = false;
  std::vector<QueryCandidates> const* const parts[] = {&pools};
  ReplyArrays const all = merge(whole, parts);
  if (!all.score.empty())
    request.min_fused = {all.score[rng.below(all.score.size())], true, rng.below(2) == 0};
}

inline PoolCase random_pool_case(Rng& rng, std::size_t most) {
  PoolCase out;
  BatchRequest& request = out.request;
  request.n_queries = 1 + rng.below(std::size_t{4});
  request.lexical.resize(rng.below(std::size_t{3}));
  request.dense.resize(rng.below(std::size_t{3 - request.lexical.size() / 2}));
  request.listed.resize(rng.below(std::size_t{5 - request.lexical.size() - request.dense.size()}));
  if (request.n_arms() == 0) request.lexical.resize(1);
  out.first_slots = {0, 256, 512};
  // Documents are few, so that lists meet; their seqs neither rise nor fall with their places.
  std::size_t const n_docs = 1 + rng.below(std::size_t{2 * most});
  std::size_t const n_arms = request.n_arms();
  std::vector<std::uint32_t> order(n_docs);
  out.arms.resize(n_arms);
  for (std::size_t q = 0; q < request.n_queries; ++q) {
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      PoolCase::Flat& to = out.arms[arm];
      for (std::uint32_t i = 0; i < n_docs; ++i) order[i] = i;
      for (std::size_t i = n_docs; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
      std::size_t const way = rng.below(std::size_t{5});
      std::size_t const n = way == 0 ? 0 : std::min(n_docs, way == 1 ? most : rng.below(most + 1));
      struct Entry {
        float score;
        Seq seq;
        std::uint32_t slot;
      };
      std::vector<Entry> list;
      bool const is_listed = arm >= request.lexical.size() + request.dense.size();
      for (std::size_t i = 0; i < n; ++i) {
        Seq const seq = static_cast<Seq>(order[i]) * 7919 % 100'003 - 40'000;
        list.push_back({list_score(rng, is_listed), seq, order[i]});
      }
      std::sort(list.begin(), list.end(), [](Entry const& a, Entry const& b) {
        return a.score != b.score ? a.score > b.score : a.seq < b.seq;
      });
      to.begins.push_back(static_cast<std::uint32_t>(to.scores.size()));
      to.counts.push_back(static_cast<std::uint32_t>(n));
      for (Entry const& one : list) {
        to.scores.push_back(one.score);
        to.seqs.push_back(one.seq);
        to.slots.push_back(one.slot);
      }
    }
  }
  for (std::size_t q = 0; q < request.n_queries; ++q) out.pools.push_back(union_of(out, q));
  request.fusion = random_fusion(rng, request);
  set_cut(rng, request, out.pools);
  return out;
}

template <typename Array>
bool same_bytes(Array const& a, Array const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
}

inline void check_replies(ReplyArrays const& found, ReplyArrays const& expected) {
  CHECK(same_bytes(found.offsets, expected.offsets));
  CHECK(same_bytes(found.part, expected.part));
  CHECK(same_bytes(found.segment, expected.segment));
  CHECK(same_bytes(found.row, expected.row));
  CHECK(same_bytes(found.rank, expected.rank));
  CHECK(same_bytes(found.score, expected.score));
  CHECK(same_bytes(found.arm_scores, expected.arm_scores));
  CHECK(same_bytes(found.arm_ranks, expected.arm_ranks));
  CHECK(same_bytes(found.scales, expected.scales));
  CHECK(same_bytes(found.list_sizes, expected.list_sizes));
}

}  // namespace hyrecall::testing
