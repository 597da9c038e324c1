// The pool of a query: the union of its lists, with every arm's score of each document, and the
// evidence for each.
#include <algorithm>
#include <utility>

#include "engine/dense/column.hpp"
#include "engine/evidence/surroundings.hpp"
#include "engine/lexical/column.hpp"
#include "engine/recall.hpp"

namespace hyrecall {

// The union of the arms' lists, each document once, with what the lists say of it.
QueryCandidates Execution::join_lists(std::span<std::span<Candidate const> const> lists,
                                      std::vector<ListPlace>& entries) {
  std::size_t const n_arms = lists.size();
  entries.clear();
  QueryCandidates pool;
  pool.lists.resize(n_arms);
  for (std::uint32_t arm = 0; arm < n_arms; ++arm) {
    pool.lists[arm].resize(lists[arm].size());
    for (std::uint32_t i = 0; i < lists[arm].size(); ++i)
      entries.push_back({lists[arm][i].seq, arm, i});
  }
  if (n_arms > 1) {  // one arm: the union is its list
    std::sort(entries.begin(), entries.end(),
              [](ListPlace const& a, ListPlace const& b) { return a.seq < b.seq; });
  }
  pool.docs.reserve(entries.size());
  pool.scores.reserve(entries.size() * n_arms);
  for (ListPlace const& entry : entries) {
    Candidate const& c = lists[entry.arm][entry.place];
    if (pool.docs.empty() || pool.docs.back().seq != c.seq) {
      pool.docs.push_back({c.seq, c.doc});
      pool.scores.resize(pool.scores.size() + n_arms, kNoScore);
    }
    std::size_t const doc = pool.docs.size() - 1;
    pool.scores[doc * n_arms + entry.arm] = c.score;
    pool.lists[entry.arm][entry.place] = static_cast<std::uint32_t>(doc);
  }
  return pool;
}

QueryCandidates Execution::complete(std::size_t query,
                                    std::vector<std::vector<Bm25Query>> const& scorers,
                                    Statistics const& statistics, Audiences const* audiences,
                                    Joining& joining, OpenScores* open) const {
  std::size_t const n_arms = request_.n_arms();
  auto const& lists = joining.lists;
  QueryCandidates pool = join_lists(lists, joining.entries);
  if (request_.evidence)
    add_evidence(query, statistics, audiences->of(kAllTables), pool, joining.threads);
  auto const is_hidden = [&](std::size_t doc) {
    return pool.evidence && pool.evidence->hidden[doc] != 0;
  };
  for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
    if (!queries_[arm][query]) continue;
    LexicalRequest const& lexical = request_.lexical[arm];
    bool const is_whole = lists[arm].size() < request_.depth && !lexical.floor.set &&
                          !queries_[arm][query]->has_excluded;
    joining.pending.clear();
    for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc) {
      float& score = pool.scores[doc * n_arms + arm];
      if (score != kNoScore) continue;
      DocRef const d = pool.docs[doc].doc;
      if (!is_in_table(lexical.table, query, d)) continue;
      Segment const& segment = snapshot_.segments[d.segment]->segment();
      if (is_whole && !is_hidden(doc)) {  // what matches is in the list
        score = segment.p.lexical[lexical.column]->has(d.row) ? 0.0f : kNoScore;
      } else {
        joining.pending.push_back({d, doc});
      }
    }
    score_pending(arm, query, scorers[arm][query], pool, joining);
  }
  for (std::size_t i = 0; i < request_.dense.size(); ++i) {
    DenseRequest const& dense = request_.dense[i];
    std::size_t const arm = request_.lexical.size() + i;
    // A list that neither depth nor floor cut holds every document with a vector.
    bool const is_whole = lists[arm].size() < request_.depth && !dense.floor.set &&
                          !dense.completes_only && dense.sparse == nullptr;
    if (is_whole && !pool.evidence) continue;
    joining.pending.clear();
    for (std::uint32_t doc = 0; doc < pool.docs.size(); ++doc) {
      if (pool.scores[doc * n_arms + arm] != kNoScore || (is_whole && !is_hidden(doc))) continue;
      DocRef const d = pool.docs[doc].doc;
      if (is_in_table(dense.table, query, d)) joining.pending.push_back({d, doc});
    }
    if (open != nullptr) leave_open(query, pool, joining, *open);
    score_pending_vectors(dense, query, arm, pool, joining);
  }
  if (pool.evidence) score_evidence(query, statistics, pool, joining);
  return pool;  // a listed arm says nothing of what it does not list
}

// Takes the documents that are only near the lists' out of joining.pending: their cosines wait
// until a fusion asks for them, which a single dense arm can bear.
void Execution::leave_open(std::size_t query, QueryCandidates const& pool, Joining& joining,
                           OpenScores& open) const {
  DenseRequest const& dense = request_.dense.front();
  // A sum of many cosines, or of products, may pass 1, the most that is told below.
  if (request_.dense.size() != 1 || !dense.is_plain() || !dense.has(query)) return;
  std::vector<Pending>& pending = joining.pending;
  auto const added = std::partition_point(
      pending.begin(), pending.end(), [&](Pending const& one) { return one.at < pool.n_found(); });
  if (added == pending.end()) return;
  open.arm = request_.lexical.size();
  open.is_open.assign(pool.docs.size(), 0);
  for (auto one = added; one != pending.end(); ++one) open.is_open[one->at] = 1;
  pending.erase(added, pending.end());
  // What the depth cuts off scores no higher than the last of the list.
  auto const& list = joining.lists[open.arm];
  open.most = list.size() < request_.depth ? 1.0f : list.back().score;
  open.most_of_hidden = 1.0f;
}

// Calls f(segment, the rows of joining.pending there as joining.rows), segment by segment, and
// hands the scores that it writes to joining.scores to the pool.
template <typename F>
void Execution::score_by_segment(std::size_t arm, QueryCandidates& pool, Joining& joining,
                                 F&& f) const {
  std::vector<Pending>& pending = joining.pending;
  auto const by_row = [](Pending const& a, Pending const& b) {
    return a.doc.segment != b.doc.segment ? a.doc.segment < b.doc.segment : a.doc.row < b.doc.row;
  };
  // A pool is in order of insertion, which mostly is that of the rows, and so are, apart from
  // these, the rows that are only near.
  auto const added = std::partition_point(
      pending.begin(), pending.end(), [&](Pending const& one) { return one.at < pool.n_found(); });
  for (auto const& [first, last] :
       {std::pair(pending.begin(), added), std::pair(added, pending.end())})
    if (!std::is_sorted(first, last, by_row)) std::sort(first, last, by_row);
  std::inplace_merge(pending.begin(), added, pending.end(), by_row);
  for (auto first = pending.begin(); first != pending.end();) {
    std::uint32_t const segment = first->doc.segment;
    joining.rows.clear();
    auto last = first;
    for (; last != pending.end() && last->doc.segment == segment; ++last)
      joining.rows.push_back(last->doc.row);
    joining.scores.resize(joining.rows.size());
    f(segment);
    for (float const score : joining.scores)
      pool.scores[(first++)->at * request_.n_arms() + arm] = score;
  }
}

// Scores what joining.pending names.
void Execution::score_pending(std::size_t arm, std::size_t query, Bm25Query const& scorer,
                              QueryCandidates& pool, Joining& joining) const {
  score_by_segment(arm, pool, joining, [&](std::uint32_t segment) {
    score_lexical_rows(snapshot_.segments[segment]->segment(), request_.lexical[arm].column, scorer,
                       postings_[arm].at(query, segment), joining.rows, joining.scores);
  });
}

void Execution::score_pending_vectors(DenseRequest const& dense, std::size_t query, std::size_t arm,
                                      QueryCandidates& pool, Joining& joining) const {
  if (!dense.has(query)) return;
  if (dense.bundles != nullptr) {
    MaxSimQuery const q(snapshot_, request_, dense, query);
    score_by_segment(arm, pool, joining, [&](std::uint32_t segment) {
      DenseColumn const& column = *snapshot_.segments[segment]->segment().p.dense[dense.column];
      std::vector<MaxSimRow> rows;
      for (Row const row : joining.rows) rows.push_back({&column, row});
      q.score(rows, joining.row_threads, joining.scores.data());
    });
    return;
  }
  if (dense.sparse != nullptr) {
    score_by_segment(arm, pool, joining, [&](std::uint32_t segment) {
      SparseColumn const& column =
          *snapshot_.segments[segment]->segment().p.dense[dense.column]->sparse;
      std::vector<HeldTerm> const q = column.held((*dense.sparse)[dense.begin + query]);
      for (std::size_t i = 0; i < joining.rows.size(); ++i) {
        Row const row = joining.rows[i];
        joining.scores[i] = column.sizes[row] != 0 ? column.score(q, row) : kNoScore;
      }
    });
    return;
  }
  DenseQuery const q = dense.query(query);
  score_by_segment(arm, pool, joining, [&](std::uint32_t segment) {
    DenseColumn const& column = *snapshot_.segments[segment]->segment().p.dense[dense.column];
    column.score(q.padded.data(), q.inverse_norm, joining.rows, joining.scores.data());
    for (std::size_t i = 0; i < joining.rows.size(); ++i)
      if (!column.has(joining.rows[i])) joining.scores[i] = kNoScore;
  });
}

// Adds the rows around the documents of the lists; those that the filter keeps out are hidden.
void Execution::add_evidence(std::size_t query, Statistics const& statistics,
                             Audience const& audience, QueryCandidates& pool,
                             PoolThreads& joined) const {
  if (threads_ != nullptr) {
    add_surroundings(snapshot_, *threads_, request_.evidence->n_distances(), request_.n_arms(),
                     pool, joined);
  } else {
    pool.evidence.emplace().n_found = pool.docs.size();
    pool.evidence->hidden.assign(pool.docs.size(), 0);
  }
  PoolEvidence& evidence = *pool.evidence;
  for (std::size_t doc = evidence.n_found; doc < pool.docs.size(); ++doc) {
    bool const is_seen = audience.sees(audience.group_of(query), pool.docs[doc].doc);
    evidence.hidden[doc] = is_seen ? 0 : 1;
  }
  for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
    QueryStatistics const& own = statistics[arm][query];
    evidence.length_shares.push_back(
        length_share(own.n_docs, own.total_length, own.squared_length));
  }
}

// What the threads and the lengths of a pool's documents say.
void Execution::score_evidence(std::size_t query, Statistics const& statistics,
                               QueryCandidates& pool, Joining& joining) const {
  PoolEvidence& evidence = *pool.evidence;
  if (request_.evidence->prior) add_priors(*request_.evidence->prior, snapshot_, priors_, pool);
  std::size_t const n_lexical = request_.lexical.size();
  evidence.threads.assign(pool.docs.size() * n_lexical, kNoScore);
  evidence.lengths.assign(pool.docs.size() * n_lexical, kNone32);
  std::vector<float>& scores = joining.scores;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    if (!queries_[arm][query]) continue;
    LexicalRequest const& lexical = request_.lexical[arm];
    QueryStatistics const& own = statistics[arm][query];
    scores.assign(pool.docs.size(), kNoScore);
    if (threads_ != nullptr && request_.evidence->thread > 0.0) {
      QueryStatistics const of_threads{own.n_threads, own.thread_length, own.thread_freqs};
      // Threads have the b of the scope's rows: squares of their lengths are not counted.
      Bm25Query const scorer(for_scope(lexical.bm25, own), *queries_[arm][query], of_threads);
      score_threads(snapshot_, *threads_, lexical.column, scorer, postings_of(arm, query),
                    joining.threads, scores);
    }
    for (std::size_t doc = 0; doc < pool.docs.size(); ++doc) {
      DocRef const d = pool.docs[doc].doc;
      if (!is_in_table(lexical.table, query, d)) continue;
      LexicalColumn const& column =
          *snapshot_.segments[d.segment]->segment().p.lexical[lexical.column];
      evidence.threads[doc * n_lexical + arm] = scores[doc];
      if (column.has(d.row)) evidence.lengths[doc * n_lexical + arm] = column.doc_length(d.row);
    }
  }
}

// Whether an arm of a table may score a document of the query's scope.
bool Execution::is_in_table(std::uint32_t table, std::size_t query, DocRef doc) const {
  return table == kAllTables ||
         scopes_[request_.tables[table][query]][doc.segment].contains(doc.row);
}

}  // namespace hyrecall
