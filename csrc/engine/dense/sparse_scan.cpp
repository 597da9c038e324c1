// A scan goes page by page. In a page, it adds up the products of one term after another, the term
// that can add most first, as float32: with what the terms that are left can add, and the error of
// these sums, that is the most that a row's score can be. It leaves the terms that add little as
// soon as the few rows that they can still bring among the best are cheaper to score one by one.
// These are then scored canonically, in the order of their bounds.
#include "engine/dense/sparse_scan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "engine/dense/collector.hpp"
#include "engine/dense/column.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {
namespace {

constexpr Row kPageTiles = kPageRows / kTileRows;
constexpr Row kGapTiles = 8;                 // that are read with the tiles around them
constexpr std::size_t kLookUpPostings = 64;  // which take as long to add as a look for one row's
constexpr std::size_t kSweepPostings = 4;    // rows that a sweep compares in the time of a posting

// A term of a query in a page.
struct PageTerm {
  SparseColumn::Run run;
  float weight;  // of the query
  float most;    // that it adds to a row
};

struct BoundedRow {
  float most;
  Row row;
};

// The weights of a run as float32, from its posting `at`.
template <bool kIsHalf>
float weight_of(std::uint8_t const* weights, std::size_t at) {
  if constexpr (kIsHalf) {
    std::uint16_t bits;
    std::memcpy(&bits, weights + 2 * at, sizeof bits);
    // Exact for what is finite and not below 0, the small ones among them.
    return std::bit_cast<float>(std::uint32_t{bits} << 13) * 0x1p112f;
  } else {
    float value;
    std::memcpy(&value, weights + 4 * at, sizeof value);
    return value;
  }
}

template <bool kIsHalf>
void add_products(SparseColumn const& column, PageTerm const& term, std::size_t begin,
                  std::size_t end, float* sums) {
  std::uint16_t const* const rows = term.run.rows.data();
  std::uint8_t const* const weights =
      column.weights.data() + term.run.begin * (kIsHalf ? sizeof(std::uint16_t) : sizeof(float));
  for (std::size_t i = begin; i < end; ++i)
    sums[rows[i]] += term.weight * weight_of<kIsHalf>(weights, i);
}

// A thread's working memory, and one query's scan of some pages.
class PageScan {
 public:
  PageScan() : sums_(kPageRows) {}

  void begin(DenseRequest const& arm, std::size_t depth, SharedThreshold& shared) {
    arm_ = &arm;
    shared_ = &shared;
    best_.emplace(depth);
    depth_ = depth;
  }

  // tiles: what the query sees of the page, rising, at least one.
  void scan(SparseColumn const& column, std::span<HeldTerm const> query, Row page,
            std::span<SelectedTile const> tiles, Seq const* seqs, std::uint32_t segment) {
    terms_.clear();
    for (HeldTerm const& one : query) {
      std::optional<SparseColumn::Run> const run = column.run_of(one.number, page);
      if (run) terms_.push_back({*run, one.weight, one.weight * run->greatest});
    }
    std::sort(terms_.begin(), terms_.end(),
              [](PageTerm const& a, PageTerm const& b) { return a.most > b.most; });
    // The sums of n products of positive float32, in any order, err by less than n 2^-23 of
    // themselves; so do the sums of the most.
    growth_ = 1.0 + static_cast<double>(terms_.size() + 2) * 0x1p-22;
    for (std::size_t first = 0; first < tiles.size();) {
      std::size_t end = first + 1;
      while (end < tiles.size() && tiles[end].tile - tiles[end - 1].tile <= kGapTiles) ++end;
      scan_stretch(column, query, page, tiles.subspan(first, end - first), seqs, segment);
      first = end;
    }
  }

  TopK& best() { return *best_; }

 private:
  // The score that a row must reach; below 0: any.
  float threshold() {
    float least = std::max(best_->threshold(), shared_->load());
    if (arm_->floor.set) least = std::max(least, arm_->floor.value);
    return least;
  }

  // What a sum has to reach so that the row may reach the threshold, where the terms that are left
  // add no more than `rest`. Of a row that has a term it is above 0.
  float needed(double rest) {
    double const least = static_cast<double>(threshold()) / growth_ - rest * growth_;
    constexpr float kAny = std::numeric_limits<float>::denorm_min();
    return least <= 0.0 ? kAny : std::max(kAny, float_down(least));
  }

  void scan_stretch(SparseColumn const& column, std::span<HeldTerm const> query, Row page,
                    std::span<SelectedTile const> tiles, Seq const* seqs, std::uint32_t segment) {
    Row const first = tiles.front().tile % kPageTiles * kTileRows;
    Row const last = tiles.back().tile % kPageTiles * kTileRows + kTileRows;
    rest_.assign(terms_.size() + 1, 0.0);
    n_left_.assign(terms_.size() + 1, 0);
    ranges_.clear();
    for (PageTerm const& one : terms_) {
      auto const& rows = one.run.rows;
      auto const from =
          first == 0 ? rows.begin() : std::lower_bound(rows.begin(), rows.end(), first);
      auto const to = last == kPageRows ? rows.end() : std::lower_bound(from, rows.end(), last);
      ranges_.push_back({static_cast<std::size_t>(from - rows.begin()),
                         static_cast<std::size_t>(to - rows.begin())});
    }
    for (std::size_t i = terms_.size(); i-- > 0;) {
      std::size_t const n = ranges_[i].second - ranges_[i].first;
      rest_[i] = rest_[i + 1] + (n > 0 ? static_cast<double>(terms_[i].most) : 0.0);
      n_left_[i] = n_left_[i + 1] + n;
    }
    if (n_left_[0] == 0 || rest_[0] * growth_ < static_cast<double>(threshold())) return;
    std::fill(sums_.begin() + first, sums_.begin() + last, 0.0f);
    std::size_t at = 0;
    while (at < terms_.size() && !is_enough(at, tiles)) {
      auto const [begin, end] = ranges_[at];
      (column.is_half ? add_products<true> : add_products<false>)(column, terms_[at], begin, end,
                                                                  sums_.data());
      ++at;
    }
    found_.clear();
    float const least = needed(rest_[at]);
    for (SelectedTile const& one : tiles) {
      Row const tile = one.tile % kPageTiles * kTileRows;
      if (!has_any(tile, least)) continue;
      for_each_bit(one.mask, [&](Row bit) {
        if (float const sum = sums_[tile + bit]; sum >= least)
          found_.push_back({sum, page * kPageRows + tile + bit});
      });
    }
    score(column, query, seqs, segment, rest_[at]);
  }

  // Whether scoring rows one by one is cheaper than adding the terms from `at` on.
  bool is_enough(std::size_t at, std::span<SelectedTile const> tiles) {
    if (rest_[at] * growth_ >= static_cast<double>(threshold())) return false;
    std::size_t const n_rows = tiles.size() * kTileRows;
    if (n_left_[at] * kSweepPostings < n_rows) return false;
    float const least = needed(rest_[at]);
    std::size_t const most = n_left_[at] / (kLookUpPostings * terms_.size());
    std::size_t n = 0;
    for (SelectedTile const& one : tiles) {
      Row const tile = one.tile % kPageTiles * kTileRows;
      std::int32_t const bits = std::bit_cast<std::int32_t>(least);
      std::int32_t reached = 0;
      for (Row i = 0; i < kTileRows; ++i)
        reached -= std::bit_cast<std::int32_t>(sums_[tile + i]) >= bits ? -1 : 0;
      n += static_cast<std::size_t>(reached);
      if (n > most) return false;
    }
    return true;
  }

  bool has_any(Row tile, float least) const {
    std::int32_t const bits =
        std::bit_cast<std::int32_t>(least);  // of positive floats: as they are
    std::int32_t any = 0;
    for (Row i = 0; i < kTileRows; ++i)
      any |= std::bit_cast<std::int32_t>(sums_[tile + i]) >= bits ? -1 : 0;
    return any != 0;
  }

  // rest: what the terms that were left add at most.
  void score(SparseColumn const& column, std::span<HeldTerm const> query, Seq const* seqs,
             std::uint32_t segment, double rest) {
    auto const by_most = [](BoundedRow const& a, BoundedRow const& b) { return a.most > b.most; };
    auto const middle =
        found_.begin() + static_cast<std::ptrdiff_t>(std::min(depth_, found_.size()));
    std::nth_element(found_.begin(), middle, found_.end(), by_most);
    auto const offer = [&](BoundedRow const& one) {
      float const found = column.score(query, one.row);
      if (found > 0.0f && arm_->floor.passes(found))
        best_->offer({found, seqs[one.row], {segment, one.row}});
    };
    std::for_each(found_.begin(), middle, offer);
    best_->tighten();
    float const least = needed(rest);
    found_.erase(found_.begin(), middle);
    std::erase_if(found_, [&](BoundedRow const& one) { return one.most < least; });
    std::sort(found_.begin(), found_.end(), by_most);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (i % depth_ == 0) {
        best_->tighten();
        if (found_[i].most < needed(rest)) break;
      }
      offer(found_[i]);
    }
    best_->tighten();
    shared_->raise(best_->threshold());
  }

  DenseRequest const* arm_ = nullptr;
  SharedThreshold* shared_ = nullptr;
  std::optional<TopK> best_;
  std::size_t depth_ = 0;
  double growth_ = 1.0;
  std::vector<float> sums_;  // [kPageRows]
  std::vector<PageTerm> terms_;
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;  // [terms] of postings
  std::vector<double> rest_;         // [terms + 1] what the terms from here on add at most
  std::vector<std::size_t> n_left_;  // [terms + 1] their postings
  std::vector<BoundedRow> found_;
};

// Some pages that a query sees, and what it sees of each.
struct Page {
  std::uint32_t segment;
  std::span<SelectedTile const> tiles;
};

std::vector<Page> pages_of(GroupTiles const& tiles) {
  std::vector<Page> out;
  for (std::uint32_t s = 0; s < tiles.size(); ++s) {
    std::span<SelectedTile const> const all = tiles[s];
    for (std::size_t first = 0; first < all.size();) {
      std::size_t end = first + 1;
      while (end < all.size() && all[end].tile / kPageTiles == all[first].tile / kPageTiles) ++end;
      out.push_back({s, all.subspan(first, end - first)});
      first = end;
    }
  }
  return out;
}

}  // namespace

QueryLists scan_sparse(Snapshot const& snapshot, BatchRequest const& request,
                       DenseRequest const& arm, Audience const& audience) {
  QueryLists lists(request.n_queries);
  if (request.depth == 0) return lists;
  std::vector<std::vector<Page>> pages;  // by group
  for (std::size_t group = 0; group < audience.n_groups(); ++group)
    pages.push_back(pages_of(audience.tiles(group)));
  // Few queries share their pages out among threads; many do not, so that each learns its
  // threshold sooner.
  auto const threads = static_cast<std::size_t>(std::max(request.threads, 1));
  std::size_t const n_shares = request.n_queries < threads ? threads : 1;
  std::vector<std::optional<PageScan>> scans(threads);
  std::vector<SharedThreshold> thresholds(request.n_queries);
  QueryLists found(request.n_queries * n_shares);
  parallel_for(found.size(), request.threads, [&](int worker, std::size_t item) {
    std::size_t const q = item / n_shares;
    std::vector<Page> const& own = pages[audience.group_of(q)];
    if (item % n_shares >= own.size() || (*arm.sparse)[arm.begin + q].empty()) return;
    std::optional<PageScan>& scan = scans[static_cast<std::size_t>(worker)];
    if (!scan) scan.emplace();
    scan->begin(arm, request.depth, thresholds[q]);
    std::uint32_t at = kNone32;
    std::vector<HeldTerm> query;
    for (std::size_t i = item % n_shares; i < own.size(); i += n_shares) {
      Page const& page = own[i];
      Segment const& segment = snapshot.segments[page.segment]->segment();
      SparseColumn const& column = *segment.p.dense[arm.column]->sparse;
      if (at != page.segment) query = column.held((*arm.sparse)[arm.begin + q]);
      at = page.segment;
      scan->scan(column, query, page.tiles.front().tile / kPageTiles, page.tiles,
                 segment.p.seqs.data(), page.segment);
    }
    found[item] = scan->best().take();
  });
  for (std::size_t q = 0; q < request.n_queries; ++q) {
    TopK best(request.depth);
    for (std::size_t share = 0; share < n_shares; ++share)
      for (Candidate const& one : found[q * n_shares + share]) best.offer(one);
    lists[q] = best.take();
  }
  return lists;
}

}  // namespace hyrecall
