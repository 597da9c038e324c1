#include "engine/recall.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "engine/dense/column.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/dense/query.hpp"
#include "engine/dense/scan.hpp"
#include "engine/evidence/snapshot_threads.hpp"
#include "engine/evidence/surroundings.hpp"
#include "engine/lexical/column.hpp"
#include "engine/lexical/on_device.hpp"
#include "engine/lexical/scan.hpp"
#include "engine/related/listed.hpp"

namespace hyrecall {

namespace {

// That the request was made for such a snapshot.
void check_fits(Snapshot const& snapshot, BatchRequest const& request) {
  if (snapshot.segments.empty()) return;
  Segment::Parts const& parts = snapshot.segments.front()->segment().p;  // all are alike
  for (LexicalRequest const& arm : request.lexical)
    require(arm.column < parts.lexical.size(), "a lexical column");
  for (DenseRequest const& arm : request.dense) {
    require(arm.column < parts.dense.size(), "a dense column");
    std::uint32_t const dim = arm.guest != nullptr ? arm.guest->dim() : arm.queries->dim();
    require(dim == parts.dense[arm.column]->dim, "queries of the dimension");
  }
}

}  // namespace

Execution::Execution(Snapshot const& snapshot, BatchRequest const& request)
    : snapshot_(snapshot), request_(request), scopes_(resolve_scopes(snapshot, request)) {
  check_fits(snapshot, request);
  if (request.evidence && !snapshot.segments.empty()) {
    for (auto const& view : snapshot.segments)
      require(view->segment().has_threads(), "segments with threads");
    threads_ = &threads_of(snapshot);
  }
  postings_.reserve(request.lexical.size());
  Statistics statistics;
  for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) {
    LexicalRequest const& lexical = request.lexical[arm];
    queries_.push_back(analyze_queries(lexical.queries, *lexical.analyzer, lexical.name,
                                       request.first_query, request.threads));
    postings_.emplace_back(queries_[arm], snapshot.segments.size());
    statistics.push_back(find_leaves(arm));
  }
  statistics_ = std::make_shared<Statistics const>(std::move(statistics));
}

// Of each scope that the arm reads, the documents with text and their tokens.
std::vector<CellTextStatistics> Execution::sum_scopes(std::size_t arm) const {
  std::size_t const column = request_.lexical[arm].column;
  std::vector<CellTextStatistics> sums(request_.scopes.size());
  std::vector<bool> is_read(sums.size());
  for (std::uint32_t const scope : request_.scopes_of(request_.lexical[arm].table))
    is_read[scope] = true;
  parallel_runs(sums.size(), run_of(scopes_), request_.threads, [&](int, std::size_t scope) {
    if (!is_read[scope]) return;
    for (std::size_t s = 0; s < snapshot_.segments.size(); ++s) {
      for (std::uint32_t cell : scopes_[scope][s].cells) {
        CellTextStatistics const one = snapshot_.segments[s]->text_statistics(column, cell);
        sums[scope].n_docs += one.n_docs;
        sums[scope].total_length += one.total_length;
        sums[scope].squared_length += one.squared_length;
      }
    }
  });
  return sums;
}

// Finds where the leaves of an arm's queries occur, and counts them.
std::vector<QueryStatistics> Execution::find_leaves(std::size_t arm) {
  LexicalRequest const& lexical = request_.lexical[arm];
  std::size_t const n_segments = snapshot_.segments.size();
  std::vector<CellTextStatistics> const sums = sum_scopes(arm);
  std::span<std::uint32_t const> const scope_of = request_.scopes_of(lexical.table);
  std::vector<QueryStatistics> found(request_.n_queries);
  std::vector<PostingScratch> scratch(static_cast<std::size_t>(std::max(request_.threads, 1)));
  parallel_runs(
      request_.n_queries, run_of(scopes_), request_.threads, [&](int worker, std::size_t q) {
        auto const& query = queries_[arm][q];
        if (!query) return;
        CellTextStatistics const& sum = sums[scope_of[q]];
        QueryStatistics statistics{sum.n_docs, sum.total_length,
                                   QueryStatistics::DocFreqs(query->leaves.size(), 0)};
        statistics.squared_length = sum.squared_length;
        std::map<std::size_t, std::set<std::string>> expanded;
        for (std::size_t s = 0; s < n_segments; ++s) {
          std::span<LeafPostings> const leaves = postings_[arm].at(q, s);
          find_postings(*snapshot_.segments[s], lexical.column, scopes_[scope_of[q]][s], *query,
                        expanded, lexical.name, scratch[static_cast<std::size_t>(worker)], leaves);
          for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
            statistics.doc_freqs[leaf] += leaves[leaf].doc_freq;
        }
        if (threads_ != nullptr && request_.evidence->thread > 0.0) {
          count_threads(snapshot_, *threads_, lexical.column, scopes_[scope_of[q]],
                        postings_of(arm, q), statistics);
        }
        found[q] = std::move(statistics);
      });
  return found;
}

// Where the leaves of a query occur, as [segment].
std::vector<std::span<LeafPostings const>> Execution::postings_of(std::size_t arm,
                                                                  std::size_t query) const {
  std::vector<std::span<LeafPostings const>> out;
  for (std::size_t s = 0; s < snapshot_.segments.size(); ++s)
    out.push_back(postings_[arm].at(query, s));
  return out;
}

std::vector<std::vector<Bm25Query>> Execution::make_scorers(Statistics const& statistics) const {
  static LexicalQuery const kMissing;
  std::vector<std::vector<Bm25Query>> scorers(request_.lexical.size());
  std::size_t const n_runs = (request_.n_queries + kShortRun - 1) / kShortRun;
  for (std::size_t arm = 0; arm < scorers.size(); ++arm) {
    std::vector<std::vector<Bm25Query>> runs(n_runs);
    parallel_for(n_runs, request_.threads, [&](int, std::size_t run) {
      runs[run].reserve(kShortRun);
      std::size_t const end = std::min(request_.n_queries, (run + 1) * kShortRun);
      for (std::size_t q = run * kShortRun; q < end; ++q) {
        auto const& query = queries_[arm][q];
        runs[run].emplace_back(request_.lexical[arm].bm25, query ? *query : kMissing,
                               statistics[arm][q]);
      }
    });
    scorers[arm].reserve(request_.n_queries);
    for (auto& run : runs) std::move(run.begin(), run.end(), std::back_inserter(scorers[arm]));
  }
  return scorers;
}

// The arm's column on the device of the snapshot, or null.
device::DeviceTable const* Execution::table_on_device(LexicalRequest const& arm) const {
  return snapshot_.device == nullptr ? nullptr : snapshot_.device->lexical_table(arm.column);
}

std::vector<std::vector<bool>> Execution::texts_on_host() const {
  std::vector<std::vector<bool>> out;
  for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
    std::vector<bool>& own = out.emplace_back(request_.n_queries, true);
    if (table_on_device(request_.lexical[arm]) == nullptr) continue;
    for (std::size_t q = 0; q < request_.n_queries; ++q)
      own[q] = queries_[arm][q] && !is_for_device(*queries_[arm][q]);
  }
  return out;
}

void Execution::find_lists(Statistics const& statistics, bool may_stay, FoundLists& out) const {
  std::size_t const n_lexical = request_.lexical.size();
  require_like(statistics, *statistics_);
  out.scorers = make_scorers(statistics);
  bool const is_on_device = snapshot_.device != nullptr;
  for (DenseRequest const& arm : request_.dense) {
    std::size_t const end = arm.begin + request_.n_queries;
    if (!is_on_device && arm.guest != nullptr && !arm.guest->has(arm.begin, end))
      arm.guest->read(arm.begin, end);
  }
  bool const has_evidence = threads_ != nullptr;
  out.on_host = texts_on_host();
  bool const stay = may_stay && is_for_device_alone(out.on_host);
  bool has_host = false;
  for (auto const& arm : out.on_host)
    has_host = has_host || std::find(arm.begin(), arm.end(), true) != arm.end();
  if (has_host || !request_.listed.empty() || has_evidence || !is_on_device)
    out.audiences.emplace(snapshot_, request_, scopes_, out.groups);
  if (has_host) {
    out.scanned = scan_lexical_arms(snapshot_, request_, scopes_, *out.audiences, out.scorers,
                                    postings_, out.on_host);
  }
  out.scanned.resize(n_lexical);
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    LexicalRequest const& lexical = request_.lexical[arm];
    if (device::DeviceTable const* const table = table_on_device(lexical)) {
      out.on_device[arm] =
          scan_lexical_on_device(*table, snapshot_, request_, lexical, scopes_,
                                 out.groups.of(lexical.table), out.scorers[arm], postings_[arm],
                                 out.texts[arm], stay ? keep_lists(*table, out) : nullptr);
    }
  }
  for (DenseRequest const& arm : request_.dense) {
    if (is_on_device) {
      device::KeptLists* const kept =
          stay ? keep_lists(snapshot_.device->dense_table(arm.column), out) : nullptr;
      out.dense_on_device.push_back(snapshot_.device->scan(snapshot_, request_, arm, scopes_,
                                                           out.groups.of(arm.table), kept));
    } else {
      out.scanned.push_back(scan_dense(snapshot_, request_, arm, out.audiences->of(arm.table)));
    }
  }
}

// What the request lists for a query, of each such arm.
void Execution::list_documents(FoundLists const& found, std::size_t q, Joining& own) const {
  own.listed.clear();
  for (ListedRequest const& arm : request_.listed) {
    Audience const& audience = found.audiences->of(kAllTables);
    own.listed.push_back(list_candidates(snapshot_, audience, audience.group_of(q), arm.queries[q],
                                         arm.floor, request_.depth));
  }
}

// The lists of one query, by arm.
void Execution::take_lists(FoundLists const& found, std::size_t q, Joining& own) const {
  list_documents(found, q, own);
  own.lists.clear();
  for (std::size_t arm = 0; arm < found.scanned.size(); ++arm) {
    bool const is_found = arm < request_.lexical.size() && !found.on_host[arm][q];
    own.lists.push_back(is_found ? (*found.on_device[arm])[q]
                                 : std::span<Candidate const>(found.scanned[arm][q]));
  }
  for (CandidateLists const& arm : found.dense_on_device) own.lists.push_back(arm[q]);
  for (auto const& list : own.listed) own.lists.push_back(list);
}

std::vector<QueryCandidates> Execution::candidates(Statistics const& statistics) const {
  FoundLists found(request_);
  find_lists(statistics, false, found);
  return join(found, statistics);
}

std::vector<QueryCandidates> Execution::join(FoundLists const& found,
                                             Statistics const& statistics) const {
  std::vector<QueryCandidates> pools(request_.n_queries);
  std::vector<Joining> joining(static_cast<std::size_t>(std::max(request_.threads, 1)));
  parallel_runs(request_.n_queries, kShortRun, request_.threads, [&](int worker, std::size_t q) {
    Joining& own = joining[static_cast<std::size_t>(worker)];
    take_lists(found, q, own);
    pools[q] =
        complete(q, found.scorers, statistics, found.audiences ? &*found.audiences : nullptr, own);
  });
  return pools;
}

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
                                    Joining& joining) const {
  std::size_t const n_arms = request_.n_arms();
  auto const& lists = joining.lists;
  QueryCandidates pool = join_lists(lists, joining.entries);
  if (threads_ != nullptr) add_evidence(query, statistics, audiences->of(kAllTables), pool);
  auto const is_hidden = [&](std::size_t doc) {
    return pool.evidence && pool.evidence->hidden[doc] != 0;
  };
  for (std::size_t arm = 0; arm < request_.lexical.size(); ++arm) {
    if (!queries_[arm][query]) continue;
    LexicalRequest const& lexical = request_.lexical[arm];
    bool const is_whole = lists[arm].size() < request_.depth && !lexical.floor.set;
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
    bool const is_whole = lists[arm].size() < request_.depth && !dense.floor.set;
    if (is_whole && !pool.evidence) continue;
    for (std::size_t doc = 0; doc < pool.docs.size(); ++doc) {
      float& score = pool.scores[doc * n_arms + arm];
      if (score != kNoScore || (is_whole && !is_hidden(doc))) continue;
      DocRef const d = pool.docs[doc].doc;
      if (!is_in_table(dense.table, query, d)) continue;
      score = score_dense(snapshot_.segments[d.segment]->segment(), dense, query, d.row);
    }
  }
  if (pool.evidence) score_evidence(query, statistics, pool);
  return pool;  // a listed arm says nothing of what it does not list
}

// Scores what joining.pending names, segment by segment.
void Execution::score_pending(std::size_t arm, std::size_t query, Bm25Query const& scorer,
                              QueryCandidates& pool, Joining& joining) const {
  std::vector<Pending>& pending = joining.pending;
  std::sort(pending.begin(), pending.end());
  for (auto first = pending.begin(); first != pending.end();) {
    std::uint32_t const segment = first->doc.segment;
    joining.rows.clear();
    auto last = first;
    for (; last != pending.end() && last->doc.segment == segment; ++last)
      joining.rows.push_back(last->doc.row);
    joining.scores.resize(joining.rows.size());
    score_lexical_rows(snapshot_.segments[segment]->segment(), request_.lexical[arm].column, scorer,
                       postings_[arm].at(query, segment), joining.rows, joining.scores);
    for (float const score : joining.scores)
      pool.scores[(first++)->at * request_.n_arms() + arm] = score;
  }
}

// Adds the rows around the documents of the lists; those that the filter keeps out are hidden.
void Execution::add_evidence(std::size_t query, Statistics const& statistics,
                             Audience const& audience, QueryCandidates& pool) const {
  add_surroundings(snapshot_, *threads_, request_.evidence->n_distances(), request_.n_arms(), pool);
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
                               QueryCandidates& pool) const {
  PoolEvidence& evidence = *pool.evidence;
  std::size_t const n_lexical = request_.lexical.size();
  evidence.threads.assign(pool.docs.size() * n_lexical, kNoScore);
  evidence.lengths.assign(pool.docs.size() * n_lexical, kNone32);
  std::vector<float> scores;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    if (!queries_[arm][query]) continue;
    LexicalRequest const& lexical = request_.lexical[arm];
    QueryStatistics const& own = statistics[arm][query];
    scores.assign(pool.docs.size(), kNoScore);
    if (request_.evidence->thread > 0.0) {
      QueryStatistics const of_threads{own.n_threads, own.thread_length, own.thread_freqs};
      Bm25Query const scorer(lexical.bm25, *queries_[arm][query], of_threads);
      score_threads(snapshot_, *threads_, lexical.column, scorer, postings_of(arm, query), pool,
                    scores);
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
