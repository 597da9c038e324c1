#include "engine/lexical/scan.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>

#include "core/parallel.hpp"
#include "engine/lexical/tile_scan.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kMostQueries = 16;  // queries that a thread takes at once
constexpr std::size_t kSharesAThread = 4;
// Enough work for another thread: some 60 us. With 25,000 two threads took a fifth longer than one,
// since waking a thread and finding a second first threshold cost 40 us. Each share selects its own
// list, which costs as much as so many postings per row of the list.
constexpr std::size_t kPostingsAShare = 75'000;
constexpr std::size_t kPostingsARow = 256;

using Lists = std::vector<std::vector<std::vector<Candidate>>>;  // [arm][query]

// If there are fewer queries than threads, threads share the tiles of a large query. The result
// does not depend on their order: a dropped row is below the best `depth` of another share.
template <typename F>
void scan_in_shares(BatchRequest const& request, LexicalPostings const& postings,
                    std::size_t n_segments, LexicalChoice const& chosen, F const& scan,
                    Lists& lists) {
  struct Item {
    std::uint32_t query;
    std::size_t arm;
    LexicalShare share;
    std::vector<Candidate> found{};
  };
  std::vector<Item> items;
  std::deque<std::atomic<float>> reached;
  auto const most = static_cast<std::size_t>(request.threads);
  std::size_t const enough = kPostingsAShare + kPostingsARow * request.depth;
  for (std::uint32_t query = 0; query < request.n_queries; ++query) {
    for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) {
      if (!chosen[arm][query]) continue;
      std::size_t n_postings = 0;
      for (std::size_t s = 0; s < n_segments; ++s) {
        for (LeafPostings const& leaf : postings[arm].at(query, s)) n_postings += leaf.n_in_scope();
      }
      auto const n =
          static_cast<std::uint32_t>(std::clamp<std::size_t>(n_postings / enough, 1, most));
      if (n > 1) reached.emplace_back(-std::numeric_limits<float>::infinity());
      for (std::uint32_t number = 0; number < n; ++number)
        items.push_back({query, arm, {number, n, n > 1 ? &reached.back() : nullptr}});
    }
  }
  parallel_for(items.size(), request.threads, [&](int worker, std::size_t i) {
    items[i].found = scan(worker, items[i].query, items[i].arm, items[i].share);
  });
  for (Item& item : items) {
    std::vector<Candidate>& list = lists[item.arm][item.query];
    list.insert(list.end(), item.found.begin(), item.found.end());
    if (item.share.number + 1 < item.share.n || item.share.n == 1) continue;
    std::sort(list.begin(), list.end());
    if (list.size() > request.depth) list.resize(request.depth);
  }
}

}  // namespace

std::vector<std::vector<std::vector<Candidate>>> scan_lexical_arms(
    Snapshot const& snapshot, BatchRequest const& request, ResolvedScopes const& scopes,
    Audiences const& audiences, LexicalScorers const& scorers, LexicalPostings const& postings,
    LexicalChoice const& chosen) {
  std::size_t const n_arms = request.lexical.size();
  Lists lists(n_arms, std::vector<std::vector<Candidate>>(request.n_queries));
  if (n_arms == 0) return lists;
  auto const threads = static_cast<std::size_t>(std::max(request.threads, 1));
  std::vector<LexicalScratch> scratch(threads);
  auto const scan = [&](int worker, std::uint32_t query, std::size_t arm, LexicalShare share) {
    LexicalScratch& own = scratch[static_cast<std::size_t>(worker)];
    LexicalRequest const& asked = request.lexical[arm];
    std::uint32_t const scope = request.scopes_of(asked.table)[query];
    Audience const& audience = audiences.of(asked.table);
    GroupTiles const& tiles = audience.tiles(audience.group_of(query));
    own.best.reset(request.depth);
    for (std::uint32_t s = 0; s < snapshot.segments.size(); ++s) {
      SegmentView const& view = *snapshot.segments[s];
      bool const is_whole = request.filter_of[query] == kNone32 && view.n_dead() == 0;
      LexicalRows const rows{view, s, scopes[scope][s], tiles[s], is_whole, share};
      scan_tiles(rows, asked, scorers[arm][query], postings[arm].at(query, s), own);
    }
    return own.best.take();
  };
  if (request.n_queries < threads) {
    scan_in_shares(request, postings, snapshot.segments.size(), chosen, scan, lists);
    return lists;
  }
  // Queries of a group one after the other, since they read mostly the same postings.
  std::span<std::uint32_t const> const order = audiences.any().by_group();
  std::size_t const share =
      std::clamp<std::size_t>(order.size() / (threads * kSharesAThread), 1, kMostQueries);
  parallel_for(
      (order.size() + share - 1) / share, request.threads, [&](int worker, std::size_t item) {
        for (std::size_t i = item * share; i < std::min(order.size(), (item + 1) * share); ++i) {
          for (std::size_t arm = 0; arm < n_arms; ++arm) {
            if (chosen[arm][order[i]]) lists[arm][order[i]] = scan(worker, order[i], arm, {});
          }
        }
      });
  return lists;
}

}  // namespace hyrecall
