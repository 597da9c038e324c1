#include "engine/part_arrays.hpp"

#include <algorithm>
#include <cmath>

#include "core/by_query.hpp"
#include "core/error.hpp"

namespace hyrecall {
namespace {

template <typename To, typename From>
void append(To& to, From const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Adds to a sum of int64 that which another process may have sent.
void require_count(std::int64_t value) {
  require(value >= 0 && value < (std::int64_t{1} << 62), "counts in [0, 2^62)");
}

QueryStatistics::DocFreqs freqs_of(std::span<std::int64_t const> values) {
  QueryStatistics::DocFreqs out(values.size(), 0);
  for (std::size_t leaf = 0; leaf < values.size(); ++leaf) {
    require_count(values[leaf]);
    out[leaf] = values[leaf];
  }
  return out;
}

// The entries of a query in an array with `width` of them a document.
template <typename T>
std::span<T const> of_docs(std::span<T const> values, std::size_t begin, std::size_t n_docs,
                           std::size_t width) {
  return values.subspan(begin * width, n_docs * width);
}

template <typename T>
std::vector<T> copy_of(std::span<T const> values) {
  return {values.begin(), values.end()};
}

void require_places(std::span<std::uint32_t const> places, std::size_t n_docs, bool may_be_none) {
  bool const fits = std::all_of(places.begin(), places.end(), [&](std::uint32_t place) {
    return place < n_docs || (may_be_none && place == kNone32);
  });
  require(fits, "documents of the query");
}

void check_list(QueryCandidates const& pool, std::size_t arm, std::size_t n_arms) {
  auto const& list = pool.lists[arm];
  auto const score = [&](std::uint32_t doc) { return pool.scores[doc * n_arms + arm]; };
  for (std::size_t at = 0; at < list.size(); ++at) {
    require(std::isfinite(score(list[at])), "a score of each document of a list");
    if (at == 0) continue;
    float const before = score(list[at - 1]), own = score(list[at]);
    require(
        before > own || (before == own && pool.docs[list[at - 1]].seq < pool.docs[list[at]].seq),
        "lists by (score desc, seq asc)");
  }
}

PoolEvidence evidence_of(CandidateArrays<BorrowedValues> const& arrays, BatchRequest const& request,
                         std::size_t query, std::size_t begin, std::size_t n_docs) {
  std::size_t const n_lexical = request.lexical.size();
  std::size_t const n_near = 2 * request.evidence->n_distances();
  PoolEvidence out;
  std::int64_t const found = arrays.found[query];
  require(found >= 0 && static_cast<std::size_t>(found) <= n_docs, "documents that were found");
  out.n_found = static_cast<std::size_t>(found);
  out.hidden = copy_of(of_docs(arrays.hidden, begin, n_docs, 1));
  out.near = copy_of(of_docs(arrays.near, begin, n_docs, n_near));
  require_places(out.near, n_docs, true);
  out.threads = copy_of(of_docs(arrays.threads, begin, n_docs, n_lexical));
  out.lengths = copy_of(of_docs(arrays.lengths, begin, n_docs, n_lexical));
  out.length_shares = copy_of(arrays.length_shares.subspan(query * n_lexical, n_lexical));
  if (request.evidence->prior) out.priors = copy_of(of_docs(arrays.priors, begin, n_docs, 1));
  return out;
}

}  // namespace

StatisticsArrays<OwnedValues> arrays_of(Statistics const& statistics) {
  StatisticsArrays<OwnedValues> out;
  out.freq_ends.push_back(0);
  out.thread_ends.push_back(0);
  for (auto const& arm : statistics) {
    for (QueryStatistics const& one : arm) {
      for (std::int64_t const number :
           {one.n_docs, one.total_length, one.squared_length, one.n_threads, one.thread_length,
            static_cast<std::int64_t>(one.refusal)})
        out.numbers.push_back(number);
      append(out.freqs, one.doc_freqs);
      append(out.thread_freqs, one.thread_freqs);
      out.freq_ends.push_back(static_cast<std::int64_t>(out.freqs.size()));
      out.thread_ends.push_back(static_cast<std::int64_t>(out.thread_freqs.size()));
    }
  }
  return out;
}

Statistics to_statistics(StatisticsArrays<BorrowedValues> const& arrays, std::size_t n_arms,
                         std::size_t n_queries) {
  std::size_t const n_entries = arrays.numbers.size() / kQueryNumbers;
  require(n_arms <= n_entries && n_queries <= n_entries + 1 &&
              arrays.numbers.size() == n_entries * kQueryNumbers && n_arms * n_queries == n_entries,
          "six numbers for each query of each arm");
  ByQuery<std::int64_t> const freqs(n_entries, arrays.freq_ends, arrays.freqs);
  ByQuery<std::int64_t> const thread_freqs(n_entries, arrays.thread_ends, arrays.thread_freqs);
  Statistics out(n_arms);
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    for (std::size_t q = 0; q < n_queries; ++q) {
      std::size_t const entry = arm * n_queries + q;
      auto const numbers = arrays.numbers.subspan(entry * kQueryNumbers, kQueryNumbers);
      for (std::int64_t const number : numbers) require_count(number);
      QueryStatistics one{numbers[0], numbers[1], freqs_of(freqs[entry])};
      one.squared_length = numbers[2];
      one.n_threads = numbers[3];
      one.thread_length = numbers[4];
      require(numbers[5] <= static_cast<std::int64_t>(Refusal::kCut), "a known refusal");
      one.refusal = static_cast<Refusal>(numbers[5]);
      one.thread_freqs = freqs_of(thread_freqs[entry]);
      out[arm].push_back(std::move(one));
    }
  }
  return out;
}

CandidateArrays<OwnedValues> arrays_of(std::vector<QueryCandidates> const& pools) {
  CandidateArrays<OwnedValues> out;
  out.doc_ends.push_back(0);
  out.list_ends.push_back(0);
  for (QueryCandidates const& pool : pools) {
    for (auto const& [seq, doc] : pool.docs) {
      out.seq.push_back(seq);
      out.segment.push_back(doc.segment);
      out.row.push_back(doc.row);
    }
    out.doc_ends.push_back(static_cast<std::int64_t>(out.seq.size()));
    append(out.scores, pool.scores);
    for (auto const& list : pool.lists) {
      append(out.listed, list);
      out.list_ends.push_back(static_cast<std::int64_t>(out.listed.size()));
    }
    if (!pool.evidence) continue;
    out.found.push_back(static_cast<std::int64_t>(pool.evidence->n_found));
    append(out.hidden, pool.evidence->hidden);
    append(out.near, pool.evidence->near);
    append(out.threads, pool.evidence->threads);
    append(out.lengths, pool.evidence->lengths);
    append(out.length_shares, pool.evidence->length_shares);
    append(out.priors, pool.evidence->priors);
  }
  return out;
}

std::vector<QueryCandidates> to_candidates(CandidateArrays<BorrowedValues> const& arrays,
                                           BatchRequest const& request) {
  std::size_t const n_arms = request.n_arms(), n_queries = request.n_queries;
  std::size_t const n_docs = arrays.seq.size();
  ByQuery<std::int64_t> const docs(n_queries, arrays.doc_ends, arrays.seq);
  ByQuery<std::uint32_t> const lists(n_queries * n_arms, arrays.list_ends, arrays.listed);
  require(arrays.segment.size() == n_docs && arrays.row.size() == n_docs &&
              arrays.scores.size() == n_docs * n_arms,
          "a row and the scores of each document");
  if (request.evidence) {
    std::size_t const n_lexical = request.lexical.size();
    require(arrays.found.size() == n_queries && arrays.hidden.size() == n_docs &&
                arrays.near.size() == n_docs * 2 * request.evidence->n_distances() &&
                arrays.threads.size() == n_docs * n_lexical &&
                arrays.lengths.size() == n_docs * n_lexical &&
                arrays.length_shares.size() == n_queries * n_lexical &&
                arrays.priors.size() == (request.evidence->prior ? n_docs : 0),
            "the evidence of each document");
  }
  std::vector<QueryCandidates> pools(n_queries);
  for (std::size_t q = 0; q < n_queries; ++q) {
    QueryCandidates& pool = pools[q];
    std::size_t const begin = docs.begin(q), n_own = docs[q].size();
    for (std::size_t doc = 0; doc < n_own; ++doc) {
      pool.docs.push_back(
          {arrays.seq[begin + doc], {arrays.segment[begin + doc], arrays.row[begin + doc]}});
    }
    pool.scores = copy_of(of_docs(arrays.scores, begin, n_own, n_arms));
    bool const are_scores =
        std::none_of(pool.scores.begin(), pool.scores.end(), [](float s) { return std::isnan(s); });
    require(are_scores, "scores that are numbers");
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      pool.lists.push_back(copy_of(lists[q * n_arms + arm]));
      require_places(pool.lists.back(), n_own, false);
      check_list(pool, arm, n_arms);
    }
    if (request.evidence) pool.evidence = evidence_of(arrays, request, q, begin, n_own);
  }
  return pools;
}

}  // namespace hyrecall
