#include "engine/dense/scan.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "engine/dense/cohorts.hpp"
#include "engine/dense/collector.hpp"
#include "engine/dense/first_threshold.hpp"
#include "engine/dense/slice_scan.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {
namespace {

// Scans without the first pass, for a cohort with too few rows.
void scan_plainly(Snapshot const& snapshot, DenseRequest const& arm, GroupTiles const& tiles,
                  std::span<DenseCollector> queries) {
  for (std::uint32_t s = 0; s < snapshot.segments.size(); ++s) {
    Segment const& segment = snapshot.segments[s]->segment();
    for (SelectedTile const& selected : tiles[s]) {
      for (DenseCollector& query : queries)
        query.score_tile(*segment.p.dense[arm.column], segment.p.seqs.span(), s, selected);
    }
  }
}

// Scans a batch: quantises queries, guesses thresholds, reads slices, and joins their results.
class DenseScan {
 public:
  DenseScan(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
            Audience const& audience)
      : snapshot_(snapshot),
        request_(request),
        arm_(arm),
        audience_(audience),
        cohorts_(plan_cohorts(snapshot, request, arm, audience)),
        quantized_(request.n_queries),
        heads_(snapshot.segments.size()),
        thresholds_(request.n_queries),
        lists_(request.n_queries) {}

  std::vector<std::vector<Candidate>> run() && {
    quantize();
    guesses_ = guess_thresholds(snapshot_, request_, arm_, audience_, cohorts_, quantized_);
    for (std::size_t q = 0; q < guesses_.size(); ++q) thresholds_[q].raise(guesses_[q]);
    scan();
    keep_failed();
    if (!cohorts_.empty()) scan();
    return std::move(lists_);
  }

 private:
  void quantize() {
    std::vector<std::uint32_t> to_quantize;
    for (QueryCohort const& cohort : cohorts_) {
      if (cohort.is_plain) continue;
      for (CohortMember const& member : cohort.members)
        to_quantize.insert(to_quantize.end(), member.queries.begin(), member.queries.end());
    }
    if (to_quantize.empty()) return;
    std::uint32_t const dim = snapshot_.segments.front()->segment().p.dense[arm_.column]->dim;
    parallel_for(to_quantize.size(), request_.threads, [&](int, std::size_t i) {
      quantized_[to_quantize[i]] = quantize_query(arm_.query(to_quantize[i]), dim);
    });
    quantize_heads();
  }

  void quantize_heads() {
    std::vector<std::uint32_t> some;
    for (QueryCohort const& cohort : cohorts_) {
      for (CohortMember const& member : cohort.members) {
        if (cohort.reads_heads)
          some.insert(some.end(), member.queries.begin(), member.queries.end());
      }
    }
    for (std::size_t s = 0; s < snapshot_.segments.size() && !some.empty(); ++s) {
      Head const& head = snapshot_.segments[s]->segment().p.dense[arm_.column]->head;
      if (head.empty()) continue;
      heads_[s].resize(request_.n_queries);
      parallel_for(some.size(), request_.threads, [&](int, std::size_t i) {
        heads_[s][some[i]] = quantize_head(arm_.query(some[i]), *head.directions);
      });
    }
  }

  void scan() {
    struct Item {
      std::size_t cohort;
      std::size_t at;  // a slice, or a query in the order of the members
    };
    std::vector<Item> items;
    std::vector<std::vector<std::vector<DenseCollector>>> sliced(cohorts_.size());  // [][slice]
    for (std::size_t c = 0; c < cohorts_.size(); ++c) {
      std::size_t const n_slices = cohorts_[c].n_slices;
      for (std::size_t slice = 0; slice < n_slices; ++slice) items.push_back({c, slice});
      sliced[c].resize(n_slices > 1 ? n_slices : 0);
    }
    parallel_for(items.size(), request_.threads, [&](int, std::size_t i) {
      auto const [c, slice] = items[i];
      std::vector<DenseCollector> queries = scan_slice_of(cohorts_[c], slice);
      if (cohorts_[c].n_slices > 1) {
        sliced[c][slice] = std::move(queries);
      } else {
        for (DenseCollector& query : queries) lists_[query.query()] = query.finish();
      }
    });
    std::vector<Item> joined;  // queries of cohorts in several slices
    for (std::size_t c = 0; c < cohorts_.size(); ++c) {
      for (std::size_t q = 0; !sliced[c].empty() && q < cohorts_[c].n_queries; ++q)
        joined.push_back({c, q});
    }
    parallel_for(joined.size(), request_.threads, [&](int, std::size_t i) {
      auto const [c, q] = joined[i];
      DenseCollector& first = sliced[c][0][q];
      for (std::size_t slice = 1; slice < sliced[c].size(); ++slice)
        first.join(std::move(sliced[c][slice][q]));
      lists_[first.query()] = first.finish();
    });
  }

  std::vector<DenseCollector> scan_slice_of(QueryCohort const& cohort, std::size_t slice) {
    std::vector<DenseCollector> queries;
    queries.reserve(cohort.n_queries);
    for (CohortMember const& member : cohort.members) {
      for (std::uint32_t q : member.queries)
        queries.emplace_back(snapshot_, arm_, q, &quantized_[q], request_.depth, thresholds_[q]);
    }
    if (cohort.is_plain && cohort.n_slices == 1 && cohort.members.size() == 1) {
      scan_plainly(snapshot_, arm_, audience_.tiles(cohort.members[0].group), queries);
    } else {
      scan_slice(snapshot_, arm_, audience_, cohort, heads_, slice, queries);
    }
    return queries;
  }

  // Keeps only the queries whose guess was too high: fewer than `depth` rows reached it, so other
  // rows may be among the best. They start again from a proven threshold: if `depth` rows were
  // found, no row below the last of them is among the best.
  void keep_failed() {
    for (QueryCohort& cohort : cohorts_) {
      for (CohortMember& member : cohort.members) {
        std::erase_if(member.queries, [&](std::uint32_t q) { return !has_failed(q); });
        for (std::uint32_t q : member.queries) {
          thresholds_[q].reset();
          if (lists_[q].size() == request_.depth) thresholds_[q].raise(lists_[q].back().score);
        }
      }
      std::erase_if(cohort.members, [](CohortMember const& one) { return one.queries.empty(); });
      cohort.n_queries = 0;
      for (CohortMember const& member : cohort.members) cohort.n_queries += member.queries.size();
    }
    std::erase_if(cohorts_, [](QueryCohort const& one) { return one.n_queries == 0; });
  }

  bool has_failed(std::uint32_t q) const {
    float const guess = guesses_[q];
    if (guess == kNoGuess || (arm_.floor.set && guess <= arm_.floor.value)) return false;
    return lists_[q].size() < request_.depth || lists_[q].back().score < guess;
  }

  Snapshot const& snapshot_;
  BatchRequest const& request_;
  DenseRequest const& arm_;
  Audience const& audience_;
  std::vector<QueryCohort> cohorts_;
  std::vector<QuantizedQuery> quantized_;  // [n_queries]; set for cohorts that use the first pass
  std::vector<std::vector<QuantizedQuery>> heads_;  // [n_segments][n_queries]; empty: no heads
  std::vector<float> guesses_;                      // [n_queries]
  std::vector<SharedThreshold> thresholds_;         // [n_queries]
  std::vector<std::vector<Candidate>> lists_;       // [n_queries]
};

}  // namespace

std::vector<std::vector<Candidate>> scan_dense(Snapshot const& snapshot,
                                               BatchRequest const& request, DenseRequest const& arm,
                                               Audience const& audience) {
  if (request.depth == 0) return std::vector<std::vector<Candidate>>(request.n_queries);
  return DenseScan(snapshot, request, arm, audience).run();
}

}  // namespace hyrecall
