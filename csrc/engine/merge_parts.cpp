#include "engine/merge_parts.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "engine/fusion/fusion.hpp"

namespace hyrecall {

void require_like(Statistics const& one, Statistics const& other) {
  bool is_alike = one.size() == other.size();
  for (std::size_t arm = 0; is_alike && arm < one.size(); ++arm) {
    is_alike = std::equal(one[arm].begin(), one[arm].end(), other[arm].begin(), other[arm].end(),
                          [](QueryStatistics const& a, QueryStatistics const& b) {
                            return a.doc_freqs.size() == b.doc_freqs.size() &&
                                   a.thread_freqs.size() == b.thread_freqs.size();
                          });
  }
  if (!is_alike)  // they may come from another process
    throw Error(ErrorCode::kShape, "statistics", "expected those of one request, got others");
}

namespace {

// Counts may come from another process.
void add(std::int64_t& sum, std::int64_t one) {
  require(!__builtin_add_overflow(sum, one, &sum), "counts below 2^63");
}

}  // namespace

Statistics add_statistics(std::span<Statistics const* const> parts) {
  require(!parts.empty(), "statistics of a part");
  Statistics sum = *parts.front();
  for (std::size_t part = 1; part < parts.size(); ++part) {
    require_like(*parts[part], sum);
    for (std::size_t arm = 0; arm < sum.size(); ++arm) {
      for (std::size_t q = 0; q < sum[arm].size(); ++q) {
        QueryStatistics const& one = (*parts[part])[arm][q];
        sum[arm][q].refusal = std::max(sum[arm][q].refusal, one.refusal);
        add(sum[arm][q].n_docs, one.n_docs);
        add(sum[arm][q].total_length, one.total_length);
        add(sum[arm][q].squared_length, one.squared_length);
        add(sum[arm][q].n_threads, one.n_threads);
        add(sum[arm][q].thread_length, one.thread_length);
        for (std::size_t leaf = 0; leaf < one.doc_freqs.size(); ++leaf)
          add(sum[arm][q].doc_freqs[leaf], one.doc_freqs[leaf]);
        for (std::size_t leaf = 0; leaf < one.thread_freqs.size(); ++leaf)
          add(sum[arm][q].thread_freqs[leaf], one.thread_freqs[leaf]);
      }
    }
  }
  return sum;
}

namespace {

// One query's candidates of all parts together. An arm's list is cut again, over all parts; what
// no list keeps is no part of the union.
class JoinedCandidates {
 public:
  // Of one part: its candidates as they are, which must outlive this.
  explicit JoinedCandidates(QueryCandidates const& only) : only_(&only) {}
  JoinedCandidates(QueryCandidates joined, std::vector<std::uint32_t> part)
      : joined_(std::move(joined)), part_(std::move(part)) {}

  QueryCandidates const& candidates() const { return only_ != nullptr ? *only_ : joined_; }
  std::span<std::uint32_t const> part() const { return part_; }

 private:
  QueryCandidates const* only_ = nullptr;
  QueryCandidates joined_;
  std::vector<std::uint32_t> part_;  // [n_docs]; empty: of one part
};

// Listed arms come last.
std::size_t first_listed(BatchRequest const& request) {
  return request.lexical.size() + request.dense.size();
}

// Appends a document of a part, with its scores. A listed arm says nothing of what the joined list
// lacks, even if the part has listed it.
void append_document(BatchRequest const& request, QueryCandidates const& from, std::uint32_t doc,
                     QueryCandidates& joined) {
  std::size_t const n_arms = request.n_arms();
  auto const scores = std::span(from.scores).subspan(doc * n_arms, n_arms);
  joined.docs.push_back(from.docs[doc]);
  for (std::size_t arm = 0; arm < n_arms; ++arm)
    joined.scores.push_back(arm < first_listed(request) ? scores[arm] : kNoScore);
}

// What stands around the documents that the lists keep. A thread lies within one part, so its part
// knows all that is near. number: where each part's documents went so far.
void join_evidence(BatchRequest const& request,
                   std::span<std::vector<QueryCandidates> const* const> parts, std::size_t query,
                   std::vector<std::vector<std::uint32_t>>& number, QueryCandidates& joined,
                   std::vector<std::uint32_t>& part_of) {
  std::size_t const n_lexical = request.lexical.size();
  std::size_t const n_near = 2 * request.evidence->n_distances();
  PoolEvidence& out = joined.evidence.emplace();
  out.n_found = joined.docs.size();
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    QueryCandidates const& from = (*parts[part])[query];
    std::vector<std::uint32_t> found;
    for (std::uint32_t doc = 0; doc < from.docs.size(); ++doc)
      if (number[part][doc] != kNone32) found.push_back(doc);
    for (std::uint32_t const doc : found) {
      for (std::size_t slot = 0; slot < n_near; ++slot) {
        std::uint32_t const other = from.evidence->near[doc * n_near + slot];
        if (other == kNone32 || number[part][other] != kNone32) continue;
        number[part][other] = static_cast<std::uint32_t>(joined.docs.size());
        append_document(request, from, other, joined);
        part_of.push_back(part);
      }
    }
  }
  std::size_t const n = joined.docs.size();
  out.hidden.resize(n);
  out.near.assign(n * n_near, kNone32);
  out.threads.assign(n * n_lexical, kNoScore);
  out.lengths.assign(n * n_lexical, kNone32);
  if (request.evidence->prior) out.priors.resize(n);
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    QueryCandidates const& from = (*parts[part])[query];
    out.length_shares = from.evidence->length_shares;  // of the whole scope: alike in all parts
    for (std::uint32_t doc = 0; doc < from.docs.size(); ++doc) {
      std::uint32_t const to = number[part][doc];
      if (to == kNone32) continue;
      out.hidden[to] = from.evidence->hidden[doc];
      if (request.evidence->prior) out.priors[to] = from.evidence->priors[doc];
      for (std::size_t slot = 0; slot < n_near; ++slot) {
        std::uint32_t const other = from.evidence->near[doc * n_near + slot];
        if (other != kNone32) out.near[to * n_near + slot] = number[part][other];
      }
      for (std::size_t arm = 0; arm < n_lexical; ++arm) {
        out.threads[to * n_lexical + arm] = from.evidence->threads[doc * n_lexical + arm];
        out.lengths[to * n_lexical + arm] = from.evidence->lengths[doc * n_lexical + arm];
      }
    }
  }
}

JoinedCandidates join_parts(BatchRequest const& request,
                            std::span<std::vector<QueryCandidates> const* const> parts,
                            std::size_t query) {
  if (parts.size() == 1) return JoinedCandidates((*parts[0])[query]);
  std::size_t const n_arms = request.n_arms();
  struct Place {
    std::uint32_t part;
    std::uint32_t doc;
  };
  std::vector<std::vector<Place>> lists(n_arms);
  std::vector<std::vector<std::uint32_t>> number(parts.size());  // where a kept document went
  for (std::uint32_t part = 0; part < parts.size(); ++part)
    number[part].resize((*parts[part])[query].docs.size(), kNone32);
  QueryCandidates joined;
  std::vector<std::uint32_t> part_of;
  joined.lists.resize(n_arms);
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    auto const pool_of = [&](Place place) -> QueryCandidates const& {
      return (*parts[place.part])[query];
    };
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      for (std::uint32_t doc : (*parts[part])[query].lists[arm]) lists[arm].push_back({part, doc});
    }
    std::sort(lists[arm].begin(), lists[arm].end(), [&](Place a, Place b) {
      float const x = pool_of(a).scores[a.doc * n_arms + arm];
      float const y = pool_of(b).scores[b.doc * n_arms + arm];
      return x != y ? x > y : pool_of(a).docs[a.doc].seq < pool_of(b).docs[b.doc].seq;
    });
    if (lists[arm].size() > request.depth) lists[arm].resize(request.depth);
    for (Place place : lists[arm]) {
      QueryCandidates const& from = pool_of(place);
      std::uint32_t& at = number[place.part][place.doc];
      if (at == kNone32) {
        at = static_cast<std::uint32_t>(joined.docs.size());
        append_document(request, from, place.doc, joined);
        part_of.push_back(place.part);
      }
      if (arm >= first_listed(request))
        joined.scores[at * n_arms + arm] = from.scores[place.doc * n_arms + arm];
      joined.lists[arm].push_back(at);
    }
  }
  if (request.evidence) join_evidence(request, parts, query, number, joined, part_of);
  return {std::move(joined), std::move(part_of)};
}

template <typename Array>
void append(Array& to, Array const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Whether a pool has what the request's evidence reads; a part without a segment has no documents.
bool is_around(QueryCandidates const& pool, BatchRequest const& request) {
  if (!pool.evidence) return pool.docs.empty();
  return pool.evidence->near.size() == pool.docs.size() * 2 * request.evidence->n_distances();
}

constexpr std::size_t kQueriesPerChunk = 64;

}  // namespace

ReplyArrays::~ReplyArrays() = default;

void ReplyArrays::make_room(std::size_t n_arms) {
  auto const n_hits = static_cast<std::size_t>(offsets.back());
  auto const resize = [](std::size_t n, auto&... arrays) { (arrays.resize(n), ...); };
  part.assign(n_hits, 0);
  resize(n_hits, segment, row, rank, score);
  resize(n_hits * n_arms, arm_scores, arm_ranks);
}

void append_hits(BatchRequest const& request, QueryCandidates const& pool, FusedList const& list,
                 std::span<std::uint32_t const> part, ReplyArrays& hits) {
  std::size_t const n_arms = request.n_arms();
  auto const& [fused, ranks, scales, evidence] = list;
  hits.scales.insert(hits.scales.end(), scales.begin(), scales.end());
  for (auto const& one : pool.lists)
    hits.list_sizes.push_back(static_cast<std::int32_t>(one.size()));
  std::size_t const begin = std::min(request.offset, fused.size());
  std::size_t const end = begin + std::min(request.limit, fused.size() - begin);
  for (std::size_t i = begin; i < end; ++i) {
    std::uint32_t const doc = fused[i].doc;
    hits.part.push_back(part.empty() ? 0 : part[doc]);
    hits.segment.push_back(pool.docs[doc].doc.segment);
    hits.row.push_back(pool.docs[doc].doc.row);
    hits.rank.push_back(static_cast<std::int32_t>(i) + 1);
    hits.score.push_back(fused[i].score);
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      hits.arm_scores.push_back(pool.scores[doc * n_arms + arm]);
      hits.arm_ranks.push_back(ranks[doc * n_arms + arm]);
    }
    if (request.evidence) {
      std::size_t const n_addends = request.evidence->n_addends();
      std::size_t const n_distances = request.evidence->n_distances();
      hits.fused.push_back(evidence.fused[doc]);
      for (std::size_t addend = 0; addend < n_addends; ++addend)
        hits.addends.push_back(evidence.addends[doc * n_addends + addend]);
      for (std::size_t distance = 0; distance < n_distances; ++distance) {
        std::uint32_t const other = evidence.speakers[doc * n_distances + distance];
        bool const is_there = other != kNone32;
        hits.near_segment.push_back(is_there ? pool.docs[other].doc.segment : kNone32);
        hits.near_row.push_back(is_there ? pool.docs[other].doc.row : kNone32);
      }
    }
  }
  hits.offsets.push_back(static_cast<std::int64_t>(hits.rank.size()));
}

ReplyArrays join_pieces(std::span<ReplyArrays const> pieces) {
  ReplyArrays hits;
  for (ReplyArrays const& piece : pieces) {
    std::int64_t const base = hits.offsets.back();
    for (std::size_t i = 1; i < piece.offsets.size(); ++i)
      hits.offsets.push_back(base + piece.offsets[i]);
    auto const join = [&](auto... arrays) { (append(hits.*arrays, piece.*arrays), ...); };
    using R = ReplyArrays;
    join(&R::part, &R::segment, &R::row, &R::rank, &R::score, &R::arm_scores, &R::arm_ranks,
         &R::scales, &R::list_sizes, &R::fused, &R::addends, &R::near_segment, &R::near_row);
  }
  return hits;
}

ReplyArrays merge(BatchRequest const& request,
                  std::span<std::vector<QueryCandidates> const* const> parts) {
  bool const is_fused = request.fusion.weights.size() == request.n_arms() && request.n_arms() > 0;
  bool const is_single = request.fusion.kind == Fusion::Kind::kNone && request.n_arms() == 1;
  require(!parts.empty() && (is_fused || is_single), "parts, and a fusion of all arms");
  for (std::vector<QueryCandidates> const* part : parts) {
    bool const fits = part->size() == request.n_queries &&
                      std::all_of(part->begin(), part->end(), [&](QueryCandidates const& pool) {
                        return pool.lists.size() == request.n_arms() &&
                               (!request.evidence || is_around(pool, request));
                      });
    require(fits, "candidates of the request");
  }
  std::vector<ReplyArrays> chunks((request.n_queries + kQueriesPerChunk - 1) / kQueriesPerChunk);
  parallel_for(chunks.size(), request.threads, [&](int, std::size_t chunk) {
    Fuser fuser(request);
    std::size_t const end = std::min(request.n_queries, (chunk + 1) * kQueriesPerChunk);
    for (std::size_t q = chunk * kQueriesPerChunk; q < end; ++q) {
      JoinedCandidates const joined = join_parts(request, parts, q);
      append_hits(request, joined.candidates(), fuser.fuse(joined.candidates()), joined.part(),
                  chunks[chunk]);
    }
  });
  return join_pieces(chunks);
}

}  // namespace hyrecall
