// A scan goes block by block of rows, whose sums stay in the first cache. In a block, it adds up
// the products of one term after another, the term that can add most first, as float32. The error
// of these sums is bounded, so each tells the least and the most that the canonical score can be,
// and the k-th greatest least is a threshold. The scan leaves the terms that add little as soon as
// the few rows that they can still bring among the best are cheaper to score one by one. The rows
// whose most reaches the threshold at the end are scored canonically: hardly more than are wanted.
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
constexpr Row kBlockRows = 8'192;
constexpr Row kBlockTiles = kBlockRows / kTileRows;
constexpr Row kGapTiles = 8;                 // that are read with the tiles around them
constexpr std::size_t kLookUpPostings = 32;  // which take as long to add as a look for one row's
constexpr std::size_t kSweepPostings = 4;    // rows that a sweep compares in the time of a posting
constexpr std::size_t kAtOnce = 8;           // postings
constexpr std::size_t kSlack = 64;           // of rows that wait

// A term of a query in a page.
struct PageTerm {
  SparseColumn::Run run;
  float weight;          // of the query
  float most;            // that it adds to a row
  std::size_t next = 0;  // posting of the run, behind those of the blocks that were read
};

// A row that may be among the best, and what its score can be.
struct WaitingRow {
  float least;
  float most;
  DocRef doc;
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

// Adds the products of a term's rows in [first, last) of the page, which lie in one block.
template <bool kIsHalf>
void add_products(SparseColumn const& column, PageTerm& term, Row first, Row last, float* sums) {
  std::uint16_t const* const rows = term.run.rows.data();
  std::size_t const n = term.run.rows.size();
  std::uint8_t const* const weights =
      column.weights.data() + term.run.begin * (kIsHalf ? sizeof(std::uint16_t) : sizeof(float));
  auto const add = [&](std::size_t i) {
    sums[rows[i] % kBlockRows] += term.weight * weight_of<kIsHalf>(weights, i);
  };
  std::size_t i = term.next;
  if (i < n && rows[i] < first)
    i = static_cast<std::size_t>(std::lower_bound(rows + i, rows + n, first) - rows);
  for (; i + kAtOnce <= n && rows[i + kAtOnce - 1] < last; i += kAtOnce)
    for (std::size_t j = 0; j < kAtOnce; ++j) add(i + j);
  for (; i < n && rows[i] < last; ++i) add(i);
  term.next = i;
}

// A thread's working memory, and one query's scan of some pages.
class PageScan {
 public:
  PageScan() : sums_(kBlockRows) {}

  void begin(Snapshot const& snapshot, DenseRequest const& arm, std::span<SparseTerm const> query,
             std::size_t depth, SharedThreshold& shared) {
    snapshot_ = &snapshot;
    arm_ = &arm;
    asked_ = query;
    shared_ = &shared;
    best_.emplace(depth);
    depth_ = depth;
    segment_ = kNone32;
    threshold_ = arm.floor.set ? arm.floor.value : 0.0f;
    waiting_.clear();
  }

  // tiles: what the query sees of a page, rising, at least one.
  void scan(std::uint32_t segment, std::span<SelectedTile const> tiles) {
    hold(segment);
    SparseColumn const& column = *column_;
    Row const page = tiles.front().tile / kPageTiles;
    terms_.clear();
    for (HeldTerm const& one : query_) {
      std::optional<SparseColumn::Run> const run = column.run_of(one.number, page);
      if (run) terms_.push_back({*run, one.weight, one.weight * run->greatest});
    }
    std::sort(terms_.begin(), terms_.end(),
              [](PageTerm const& a, PageTerm const& b) { return a.most > b.most; });
    rest_.assign(terms_.size() + 1, 0.0);
    n_left_.assign(terms_.size() + 1, 0);
    for (std::size_t i = terms_.size(); i-- > 0;) {
      rest_[i] = rest_[i + 1] + static_cast<double>(terms_[i].most);
      n_left_[i] = n_left_[i + 1] + terms_[i].run.rows.size();
    }
    // The sums of n products of positive float32, in any order, err by less than n 2^-23 of
    // themselves; so do the sums of the most.
    growth_ = 1.0 + static_cast<double>(terms_.size() + 2) * 0x1p-22;
    for (std::size_t first = 0; first < tiles.size();) {
      std::size_t end = first + 1;
      while (end < tiles.size() && tiles[end].tile - tiles[end - 1].tile <= kGapTiles &&
             tiles[end].tile / kBlockTiles == tiles[first].tile / kBlockTiles)
        ++end;
      scan_stretch(tiles.subspan(first, end - first));
      first = end;
    }
  }

  std::vector<Candidate> finish() {
    settle();
    return best_->take();
  }

 private:
  void hold(std::uint32_t segment) {
    if (segment == segment_) return;
    segment_ = segment;
    column_ = snapshot_->segments[segment]->segment().p.dense[arm_->column]->sparse.get();
    query_ = column_->held(asked_);
  }

  // The score that a row must reach.
  float threshold() const { return std::max(threshold_, shared_->load()); }

  // What a sum has to reach so that the row may reach the threshold, where the terms that are left
  // add no more than `rest`. Of a row that has a term it is above 0.
  float needed(double rest) {
    double const least = static_cast<double>(threshold()) / growth_ - rest * growth_;
    constexpr float kAny = std::numeric_limits<float>::denorm_min();
    return least <= 0.0 ? kAny : std::max(kAny, float_down(least));
  }

  void scan_stretch(std::span<SelectedTile const> tiles) {
    Row const first = tiles.front().tile % kPageTiles * kTileRows;
    Row const last = tiles.back().tile % kPageTiles * kTileRows + kTileRows;
    if (rest_[0] * growth_ < static_cast<double>(threshold())) return;
    std::fill(sums_.begin() + first % kBlockRows,
              sums_.begin() + first % kBlockRows + (last - first), 0.0f);
    std::size_t at = 0;
    for (; at < terms_.size() && !is_enough(at, tiles); ++at)
      (column_->is_half ? add_products<true> : add_products<false>)(*column_, terms_[at], first,
                                                                    last, sums_.data());
    float const least = needed(rest_[at]);
    for (SelectedTile const& one : tiles) {
      Row const tile = one.tile % kBlockTiles * kTileRows;
      if (!has_any(tile, least)) continue;
      for_each_bit(one.mask, [&](Row bit) {
        if (float const sum = sums_[tile + bit]; sum >= least)
          wait(sum, one.tile * kTileRows + bit, at == terms_.size());
      });
    }
    shared_->raise(threshold_);
  }

  // is_whole: the sum has all terms.
  void wait(float sum, Row row, bool is_whole) {
    WaitingRow one{0.0f, 0.0f, {segment_, row}};
    if (is_whole) {
      one.least = float_down(static_cast<double>(sum) / growth_);
      one.most = float_up(static_cast<double>(sum) * growth_);
    } else {
      one.least = one.most = column_->score(query_, row);
    }
    if (one.most < threshold_) return;
    waiting_.push_back(one);
    if (waiting_.size() < 2 * depth_ + kSlack) return;
    tighten();
    if (waiting_.size() > depth_ + depth_ / 2 + kSlack / 2) settle();  // many that are equal, say
  }

  // Raises the threshold to the k-th greatest least, and drops what does not reach it.
  void tighten() {
    auto const last = waiting_.begin() + static_cast<std::ptrdiff_t>(depth_) - 1;
    std::nth_element(waiting_.begin(), last, waiting_.end(),
                     [](WaitingRow const& a, WaitingRow const& b) { return a.least > b.least; });
    threshold_ = std::max(threshold_, last->least);
    std::erase_if(waiting_, [&](WaitingRow const& one) { return one.most < threshold_; });
  }

  // Scores what waits.
  void settle() {
    if (waiting_.size() > depth_) tighten();
    std::uint32_t const now = segment_;
    std::sort(waiting_.begin(), waiting_.end(), [](WaitingRow const& a, WaitingRow const& b) {
      return a.doc.segment < b.doc.segment;
    });
    for (WaitingRow const& one : waiting_) {
      hold(one.doc.segment);
      float const score = column_->score(query_, one.doc.row);
      if (score > 0.0f && arm_->floor.passes(score))
        best_->offer(
            {score, snapshot_->segments[one.doc.segment]->segment().p.seqs[one.doc.row], one.doc});
    }
    waiting_.clear();
    if (now != kNone32) hold(now);
    best_->tighten();
    threshold_ = std::max(threshold_, best_->threshold());
  }

  // Whether scoring rows one by one is cheaper than adding the terms from `at` on.
  bool is_enough(std::size_t at, std::span<SelectedTile const> tiles) {
    if (rest_[at] * growth_ >= static_cast<double>(threshold())) return false;
    std::size_t const n_rows = tiles.size() * kTileRows;
    std::size_t const n_left = n_left_[at] * n_rows / kPageRows;  // about
    if (n_left * kSweepPostings < n_rows) return false;
    float const least = needed(rest_[at]);
    std::size_t const most = n_left / (kLookUpPostings * terms_.size());
    std::size_t n = 0;
    for (SelectedTile const& one : tiles) {
      Row const tile = one.tile % kBlockTiles * kTileRows;
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

  Snapshot const* snapshot_ = nullptr;
  DenseRequest const* arm_ = nullptr;
  std::span<SparseTerm const> asked_{};
  SharedThreshold* shared_ = nullptr;
  std::optional<TopK> best_;
  std::size_t depth_ = 0;
  std::uint32_t segment_ = kNone32;
  SparseColumn const* column_ = nullptr;  // of the segment
  std::vector<HeldTerm> query_;           // there
  float threshold_ = 0.0f;
  std::vector<WaitingRow> waiting_;
  double growth_ = 1.0;
  std::vector<float> sums_;  // [kBlockRows]
  std::vector<PageTerm> terms_;
  std::vector<double> rest_;         // [terms + 1] what the terms from here on add at most
  std::vector<std::size_t> n_left_;  // [terms + 1] their postings
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
  std::size_t most_pages = 1;
  for (std::vector<Page> const& one : pages) most_pages = std::max(most_pages, one.size());
  std::size_t const n_shares = request.n_queries < threads ? std::min(threads, most_pages) : 1;
  std::vector<std::optional<PageScan>> scans(threads);
  std::vector<SharedThreshold> thresholds(request.n_queries);
  QueryLists found(request.n_queries * n_shares);
  parallel_for(found.size(), request.threads, [&](int worker, std::size_t item) {
    std::size_t const q = item / n_shares;
    std::vector<Page> const& own = pages[audience.group_of(q)];
    if (item % n_shares >= own.size() || (*arm.sparse)[arm.begin + q].empty()) return;
    std::optional<PageScan>& scan = scans[static_cast<std::size_t>(worker)];
    if (!scan) scan.emplace();
    scan->begin(snapshot, arm, (*arm.sparse)[arm.begin + q], request.depth, thresholds[q]);
    for (std::size_t i = item % n_shares; i < own.size(); i += n_shares)
      scan->scan(own[i].segment, own[i].tiles);
    found[item] = scan->finish();
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
