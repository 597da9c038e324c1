#include "engine/evidence/groups.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/fusion_math.hpp"
#include "engine/evidence/snapshot_threads.hpp"

namespace hyrecall {
namespace {

// Takes entries of an array that has `width` values for each of n.
template <typename Values>
void take(Values& values, std::vector<std::size_t> const& places, std::size_t n) {
  if (values.empty()) return;
  std::size_t const width = values.size() / n;
  Values taken;
  for (std::size_t const place : places)
    taken.insert(taken.end(), &values[place * width], &values[place * width] + width);
  values = std::move(taken);
}

void take_hits(ReplyArrays& reply, std::vector<std::size_t> const& places,
               std::vector<std::int32_t> const& ranks, std::vector<std::int64_t> offsets) {
  std::size_t const n = reply.row.size();
  auto const take_all = [&](auto&... values) { (take(values, places, n), ...); };
  take_all(reply.part, reply.segment, reply.row, reply.score, reply.arm_scores, reply.arm_ranks,
           reply.fused, reply.addends, reply.near_segment, reply.near_row);
  reply.rank.assign(ranks.begin(), ranks.end());
  reply.offsets = std::move(offsets);
}

// Scales each arm's scores to [0, 1] over the candidates [begin, end) of a query, as those of an
// entry a row; 0 where there is none. least: over the arms that list one of them.
void scale_scores(ReplyArrays const& reply, std::size_t begin, std::size_t end, std::size_t n_arms,
                  std::vector<double>& scaled, std::vector<double>& least) {
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    bool is_heard = false;
    ScoreRange range;
    for (std::size_t at = begin; at < end; ++at) {
      float const score = reply.arm_scores[at * n_arms + arm];
      is_heard = is_heard || reply.arm_ranks[at * n_arms + arm] > 0;
      if (std::isfinite(score)) range.add(score);
    }
    for (std::size_t at = begin; is_heard && at < end; ++at) {
      float const score = reply.arm_scores[at * n_arms + arm];
      double& own = scaled[at * n_arms + arm];
      if (std::isfinite(score)) own = minmax_scale(score, range.low, range.high);
      least[at] = std::min(least[at], own);
    }
  }
}

// A candidate, and where it stands in its thread; without a thread: as it was inserted.
struct Stand {
  std::uint32_t thread;
  PlaceKey key;
  std::size_t at;
  friend auto operator<=>(Stand const&, Stand const&) = default;
};

std::vector<Stand> stands(Snapshot const& snapshot, ReplyArrays const& reply, std::size_t begin,
                          std::size_t end, SnapshotThreads const* threads) {
  std::vector<Stand> out;
  for (std::size_t at = begin; at < end; ++at) {
    DocRef const doc{reply.segment[at], reply.row[at]};
    Seq const seq = snapshot.segments[doc.segment]->segment().p.seqs[doc.row];
    out.push_back({threads == nullptr ? kNone32 : threads->of(doc), {false, 0, seq}, at});
    if (threads != nullptr) out.back().key = threads->table(doc.segment).key(doc.row);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

ThreadMembers group_by_thread(Snapshot const& snapshot, GroupParams const& params,
                              ReplyArrays& reply) {
  SnapshotThreads const& threads = threads_of(snapshot);
  ThreadMembers out;
  std::size_t const n = reply.row.size();
  std::vector<std::size_t> kept;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> ranks;
  std::vector<std::uint32_t> of(n);
  for (std::size_t at = 0; at < n; ++at) of[at] = threads.of({reply.segment[at], reply.row[at]});
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> members;  // of hits on the page
  for (std::size_t query = 0; query + 1 < reply.offsets.size(); ++query) {
    auto const begin = static_cast<std::size_t>(reply.offsets[query]);
    auto const end = static_cast<std::size_t>(reply.offsets[query + 1]);
    members.clear();
    std::size_t const first = kept.size();
    std::size_t n_hits = 0;
    for (std::size_t at = begin; at < end; ++at) {
      if (auto const found = members.find(of[at]); found != members.end()) {
        if (found->second.size() < params.most_members) found->second.push_back(at);
        continue;
      }
      if (n_hits == params.offset + params.limit) continue;
      ++n_hits;
      if (of[at] != kNone32) members.emplace(of[at], std::vector<std::size_t>{at});
      if (n_hits <= params.offset) continue;
      kept.push_back(at);
      ranks.push_back(static_cast<std::int32_t>(n_hits));
    }
    for (std::size_t i = first; i < kept.size(); ++i) {
      std::size_t const hit = kept[i];
      std::vector<std::size_t> const alone{hit};
      for (std::size_t const at : of[hit] == kNone32 ? alone : members.at(of[hit])) {
        out.segment.push_back(reply.segment[at]);
        out.row.push_back(reply.row[at]);
        out.score.push_back(reply.score[at]);
      }
      out.offsets.push_back(static_cast<std::int64_t>(out.row.size()));
    }
    offsets.push_back(static_cast<std::int64_t>(kept.size()));
  }
  take_hits(reply, kept, ranks, std::move(offsets));
  return out;
}

LinearScores score_by_features(Snapshot const& snapshot, std::span<LinearTerm const> terms,
                               GroupParams const& page, ReplyArrays& reply) {
  std::size_t const n = reply.row.size(), n_terms = terms.size();
  std::size_t const n_arms = n == 0 ? 0 : reply.arm_scores.size() / n;
  std::size_t const n_evidence = n == 0 ? 0 : reply.addends.size() / n;
  LinearScores out{n, reply.fused, {}, std::vector<double>(n * n_terms)};
  if (reply.fused.empty()) out.fused.assign(reply.score.begin(), reply.score.end());
  std::vector<double> scaled(n * n_arms), least(n, HUGE_VAL), room;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> ranks;
  std::vector<std::size_t> kept;
  bool const is_beside =
      std::any_of(terms.begin(), terms.end(), [](auto const& term) { return term.steps != 0; });
  SnapshotThreads const* const threads = is_beside ? &threads_of(snapshot) : nullptr;
  for (std::size_t query = 0; query + 1 < reply.offsets.size(); ++query) {
    auto const begin = static_cast<std::size_t>(reply.offsets[query]);
    auto const end = static_cast<std::size_t>(reply.offsets[query + 1]);
    scale_scores(reply, begin, end, n_arms, scaled, least);
    std::vector<Stand> line = stands(snapshot, reply, begin, end, threads);
    auto const value = [&](LinearTerm const& term, std::size_t place) {
      std::size_t const other = place + static_cast<std::size_t>(term.steps);  // wraps below 0
      bool const is_there = other < line.size() && line[other].thread == line[place].thread;
      if (term.steps != 0 && (!is_there || line[place].thread == kNone32)) return 0.0;
      std::size_t const at = line[other].at;
      if (term.kind == LinearTerm::Kind::kFused) return out.fused[at];
      if (term.kind == LinearTerm::Kind::kAgreement) return least[at];
      if (term.kind == LinearTerm::Kind::kScore) return scaled[at * n_arms + term.at];
      if (term.kind == LinearTerm::Kind::kRank) {
        std::int32_t const rank = reply.arm_ranks[at * n_arms + term.at];
        return rank > 0 ? 1.0 / rank : 0.0;
      }
      double const addend = reply.addends[at * n_evidence + term.at];
      return std::isnan(addend) ? 0.0 : addend;
    };
    for (std::size_t place = 0; place < line.size(); ++place) {
      double* const addends = out.addends.data() + line[place].at * n_terms;
      for (std::size_t i = 0; i < n_terms; ++i)
        addends[i] = terms[i].weight * value(terms[i], place);
      room.assign(addends, addends + n_terms);
      reply.score[line[place].at] = sum_largest_first(room) + 0.0;
    }
    std::sort(line.begin(), line.end(), [&](Stand const& a, Stand const& b) {
      double const x = reply.score[a.at], y = reply.score[b.at];
      return x != y ? x > y : a.key.seq < b.key.seq;
    });
    for (std::size_t i = page.offset; i < std::min(line.size(), page.offset + page.limit); ++i) {
      kept.push_back(line[i].at);
      out.seqs.push_back(line[i].key.seq);
      ranks.push_back(static_cast<std::int32_t>(i + 1));
    }
    offsets.push_back(static_cast<std::int64_t>(kept.size()));
  }
  take_hits(reply, kept, ranks, std::move(offsets));
  take(out.fused, kept, n);
  take(out.addends, kept, n);
  return out;
}

}  // namespace hyrecall
