#include "engine/lexical_scan.hpp"

#include <algorithm>
#include <numeric>

#include "core/parallel.hpp"
#include "engine/lexical_tiles.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kMostQueries = 16;  // a thread takes at once
constexpr std::size_t kSharesAThread = 4;

}  // namespace

std::vector<std::vector<std::vector<Candidate>>> scan_lexical_arms(
    Snapshot const& snapshot, Request const& request, ResolvedScopes const& scopes,
    Audience const& audience, LexicalScorers const& scorers, LexicalPostings const& postings) {
  std::size_t const n_arms = request.lexical.size();
  std::vector<std::vector<std::vector<Candidate>>> lists(
      request.n_queries, std::vector<std::vector<Candidate>>(n_arms));
  if (n_arms == 0) return lists;
  auto const threads = static_cast<std::size_t>(std::max(request.threads, 1));
  std::vector<LexicalScratch> scratch(threads);
  // Queries of a group one after the other: their postings are the same ones, more or less.
  std::vector<std::uint32_t> order(request.n_queries);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return audience.group_of(a) < audience.group_of(b);
  });
  std::size_t const share =
      std::clamp<std::size_t>(order.size() / (threads * kSharesAThread), 1, kMostQueries);
  parallel_for(
      (order.size() + share - 1) / share, request.threads, [&](int worker, std::size_t item) {
        LexicalScratch& own = scratch[static_cast<std::size_t>(worker)];
        for (std::size_t i = item * share; i < std::min(order.size(), (item + 1) * share); ++i) {
          std::uint32_t const query = order[i];
          std::uint32_t const scope = request.scope_of[query];
          GroupTiles const& tiles = audience.tiles(audience.group_of(query));
          for (std::size_t arm = 0; arm < n_arms; ++arm) {
            own.best.reset(request.depth);
            for (std::uint32_t s = 0; s < snapshot.segments.size(); ++s) {
              SegmentView const& view = *snapshot.segments[s];
              bool const is_whole = request.filter_of[query] == kNone32 && view.n_dead() == 0;
              LexicalRows const rows{view, s, scopes[scope][s], tiles[s], is_whole};
              scan_lexical(rows, request.lexical[arm], scorers[arm][query], postings[arm][query][s],
                           own);
            }
            lists[query][arm] = own.best.take();
          }
        }
      });
  return lists;
}

}  // namespace hyrecall
