#include "engine/recall.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "engine/dense_arm.hpp"
#include "engine/dense_scan.hpp"
#include "engine/device_snapshot.hpp"
#include "engine/listed_arm.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kBlockQueries = 16;  // queries that meet a tile while it is in cache

}  // namespace

Execution::Execution(Snapshot const& snapshot, Request const& request)
    : snapshot_(snapshot), request_(request), scopes_(resolve_scopes(snapshot, request)) {
  std::size_t const n_segments = snapshot.segments.size();
  postings_.resize(request.lexical.size());
  for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) {
    LexicalRequest const& lexical = request.lexical[arm];
    queries_.push_back(analyze_queries(lexical.queries, *lexical.analyzer, lexical.name));
    postings_[arm].resize(request.n_queries);
    parallel_for(request.n_queries, request.threads, [&](int, std::size_t q) {
      auto const& query = queries_[arm][q];
      postings_[arm][q].resize(n_segments);
      if (!query) return;
      std::vector<std::set<std::string>> expanded(query->leaves.size());
      for (std::size_t s = 0; s < n_segments; ++s) {
        for (std::size_t leaf = 0; leaf < query->leaves.size(); ++leaf) {
          postings_[arm][q][s].push_back(
              find_postings(*snapshot.segments[s], lexical.column, scopes_[request.scope_of[q]][s],
                            query->leaves[leaf], expanded[leaf], lexical.name));
        }
      }
    });
  }
}

Statistics Execution::statistics() const {
  Statistics out(request_.lexical.size());
  for (std::size_t arm = 0; arm < out.size(); ++arm) {
    std::size_t const column = request_.lexical[arm].column;
    std::vector<CellTextStatistics> sums(request_.scopes.size());
    parallel_for(sums.size(), request_.threads, [&](int, std::size_t scope) {
      for (std::size_t s = 0; s < snapshot_.segments.size(); ++s) {
        for (std::uint32_t cell : scopes_[scope][s].cells) {
          CellTextStatistics const one = snapshot_.segments[s]->text_statistics(column, cell);
          sums[scope].n_docs += one.n_docs;
          sums[scope].total_length += one.total_length;
        }
      }
    });
    out[arm].resize(request_.n_queries);
    for (std::size_t q = 0; q < request_.n_queries; ++q) {
      auto const& query = queries_[arm][q];
      if (!query) continue;
      CellTextStatistics const& sum = sums[request_.scope_of[q]];
      out[arm][q] = {sum.n_docs, sum.total_length,
                     std::vector<std::int64_t>(query->leaves.size(), 0)};
      for (auto const& leaves : postings_[arm][q]) {
        for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
          out[arm][q].doc_freqs[leaf] += leaves[leaf].doc_freq;
      }
    }
  }
  return out;
}

std::vector<Execution::Block> Execution::make_blocks(Audience const& audience) const {
  std::vector<std::vector<std::uint32_t>> groups(audience.n_groups());
  for (std::uint32_t q = 0; q < request_.n_queries; ++q) groups[audience.group_of(q)].push_back(q);
  std::vector<Block> blocks;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::vector<std::uint32_t> const& queries = groups[group];
    for (std::size_t begin = 0; begin < queries.size(); begin += kBlockQueries) {
      std::size_t const end = std::min(queries.size(), begin + kBlockQueries);
      blocks.push_back({group,
                        audience.scope_of(group),
                        {queries.begin() + static_cast<std::ptrdiff_t>(begin),
                         queries.begin() + static_cast<std::ptrdiff_t>(end)}});
    }
  }
  return blocks;
}

void Execution::scan_lexical_block(Block const& block, GroupTiles const& group,
                                   std::vector<std::vector<Bm25Query>>& scorers,
                                   LexicalScratch& scratch, Lists& out) const {
  std::size_t const n_arms = request_.lexical.size();
  std::vector<TopK> best(n_arms * block.queries.size(), TopK(request_.depth));
  for (std::uint32_t s = 0; s < snapshot_.segments.size(); ++s) {
    std::span<SelectedTile const> const tiles = group[s];
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      for (std::size_t q = 0; q < block.queries.size(); ++q) {
        std::uint32_t const query = block.queries[q];
        if (!queries_[arm][query]) continue;
        scan_lexical(*snapshot_.segments[s], s, request_.lexical[arm], scorers[arm][query],
                     postings(arm, query, s), scopes_[block.scope][s], tiles, scratch,
                     best[arm * block.queries.size() + q]);
      }
    }
  }
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    for (std::size_t q = 0; q < block.queries.size(); ++q) {
      out[block.queries[q]][arm] = best[arm * block.queries.size() + q].take();
    }
  }
}

std::vector<Pool> Execution::candidates(Statistics const& statistics) const {
  std::size_t const n_lexical = request_.lexical.size();
  std::size_t const n_dense = request_.dense.size();
  std::vector<std::vector<Bm25Query>> scorers(n_lexical);
  static LexicalQuery const kMissing;
  for (std::size_t arm = 0; arm < n_lexical; ++arm) {
    for (std::size_t q = 0; q < request_.n_queries; ++q) {
      auto const& query = queries_[arm][q];
      scorers[arm].emplace_back(request_.lexical[arm].bm25, query ? *query : kMissing,
                                statistics[arm][q]);
    }
  }
  bool const is_on_device = snapshot_.device != nullptr;
  for (DenseRequest const& arm : request_.dense) {
    std::size_t const end = arm.guest_begin + request_.n_queries;
    if (!is_on_device && arm.guest != nullptr && !arm.guest->has(arm.guest_begin, end))
      arm.guest->read(arm.guest_begin, end);
  }
  std::vector<std::vector<std::vector<Candidate>>> dense;  // [dense arm][query]
  Lists lexical(request_.n_queries, std::vector<std::vector<Candidate>>(n_lexical));
  std::optional<Audience> audience;  // a device finds a dense arm's rows by itself
  if (n_lexical > 0 || !request_.listed.empty() || !is_on_device)
    audience.emplace(snapshot_, request_, scopes_);
  if (n_lexical > 0) scan_lexical_arms(*audience, scorers, lexical);
  if (is_on_device && n_dense > 0) {
    QueryGroups const groups(request_);
    for (DenseRequest const& arm : request_.dense)
      dense.push_back(snapshot_.device->scan(snapshot_, request_, arm, scopes_, groups));
  } else {
    for (DenseRequest const& arm : request_.dense)
      dense.push_back(scan_dense(snapshot_, request_, arm, *audience));
  }

  std::vector<Pool> pools(request_.n_queries);
  parallel_for(request_.n_queries, request_.threads, [&](int, std::size_t q) {
    ArmLists lists = std::move(lexical[q]);
    for (auto& arm : dense) lists.push_back(std::move(arm[q]));
    for (ListedRequest const& arm : request_.listed) {
      lists.push_back(list_candidates(snapshot_, *audience, audience->group_of(q), arm.queries[q],
                                      arm.floor, request_.depth));
    }
    pools[q] = complete(q, std::move(lists), scorers);
  });
  return pools;
}

void Execution::scan_lexical_arms(Audience const& audience,
                                  std::vector<std::vector<Bm25Query>>& scorers,
                                  Lists& lexical) const {
  std::vector<Block> const blocks = make_blocks(audience);
  std::vector<LexicalScratch> scratch(static_cast<std::size_t>(std::max(request_.threads, 1)));
  parallel_for(blocks.size(), request_.threads, [&](int worker, std::size_t item) {
    scan_lexical_block(blocks[item], audience.tiles(blocks[item].group), scorers,
                       scratch[static_cast<std::size_t>(worker)], lexical);
  });
}

Pool Execution::complete(std::size_t query, ArmLists lists,
                         std::vector<std::vector<Bm25Query>> const& scorers) const {
  std::size_t const n_arms = request_.n_arms();
  std::size_t const n_lexical = request_.lexical.size();
  Pool pool;
  // The union of the lists, each document once.
  for (auto const& list : lists) {
    for (Candidate const& c : list) pool.docs.push_back({c.seq, c.segment, c.row});
  }
  auto const before = [](Pool::Doc const& a, Pool::Doc const& b) { return a.seq < b.seq; };
  if (n_arms > 1) {
    std::sort(pool.docs.begin(), pool.docs.end(), before);
    auto const same = [](Pool::Doc const& a, Pool::Doc const& b) { return a.seq == b.seq; };
    pool.docs.erase(std::unique(pool.docs.begin(), pool.docs.end(), same), pool.docs.end());
  }
  pool.scores.assign(pool.docs.size() * n_arms, kNoScore);
  pool.lists.resize(n_arms);
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    for (std::uint32_t i = 0; i < lists[arm].size(); ++i) {
      Candidate const& c = lists[arm][i];
      auto doc = i;  // one arm: the union is its list
      if (n_arms > 1) {
        auto const at = std::lower_bound(pool.docs.begin(), pool.docs.end(),
                                         Pool::Doc{c.seq, c.segment, c.row}, before);
        doc = static_cast<std::uint32_t>(at - pool.docs.begin());
      }
      pool.scores[doc * n_arms + arm] = c.score;
      pool.lists[arm].push_back(doc);
    }
  }
  for (std::size_t doc = 0; doc < pool.docs.size(); ++doc) {
    Pool::Doc const& d = pool.docs[doc];
    Segment const& segment = snapshot_.segments[d.segment]->segment();
    for (std::size_t arm = 0; arm < n_arms; ++arm) {
      float& score = pool.scores[doc * n_arms + arm];
      if (score != kNoScore) continue;
      if (arm >= n_lexical + request_.dense.size()) {
        continue;  // a listed arm says nothing of what it does not list
      } else if (arm >= n_lexical) {
        score = score_dense(segment, request_.dense[arm - n_lexical], query, d.row);
      } else if (queries_[arm][query]) {
        score = score_lexical(segment, request_.lexical[arm].column, scorers[arm][query],
                              postings(arm, query, d.segment), d.row);
      }
    }
  }
  return pool;
}

void Execution::require_authorised(std::size_t query, std::uint32_t segment, Row row) const {
  require(query < request_.n_queries && segment < snapshot_.segments.size(), "a row of a reply");
  bool const is_seen = scopes_[request_.scope_of[query]][segment].contains(row) &&
                       snapshot_.segments[segment]->live()[row];
  require(is_seen, "a row in the query's scope");
}

std::vector<std::uint32_t> Execution::leaf_freqs(std::size_t arm, std::size_t query,
                                                 std::uint32_t segment, Row row) const {
  require_authorised(query, segment, row);
  std::vector<std::uint32_t> out;
  for (LeafPostings const& leaf : postings(arm, query, segment)) out.push_back(leaf.freq_of(row));
  return out;
}

bool Execution::matches(std::size_t arm, std::size_t query, std::uint32_t segment, Row row) const {
  require_authorised(query, segment, row);
  std::vector<LeafPostings> const& leaves = postings(arm, query, segment);
  return queries_[arm][query]->match.matches(
      [&](std::uint32_t leaf) { return leaves[leaf].freq_of(row) > 0; });
}

}  // namespace hyrecall
