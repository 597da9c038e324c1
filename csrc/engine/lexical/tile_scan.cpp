#include "engine/lexical/tile_scan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/lexical/column.hpp"
#include "engine/lexical/matched_rows.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

static_assert(kDocTileBits == cpu::kCodedBits);

constexpr std::uint32_t kSiftChunk = 2048;  // rows between two reads of the threshold
// If a tile has fewer than one posting in so many rows, the scan reads its postings, not its sums.
constexpr std::uint64_t kRowsAPosting = 32;
static_assert(kDocTileRows / kRowsAPosting < kSiftChunk);  // room for all rows of a walk
constexpr float kLeastPositive = std::numeric_limits<float>::denorm_min();
// From this depth on selecting a list costs more than a guess of the threshold.
constexpr std::size_t kGuessDepth = 64;
constexpr Row kGuessTiles = 4;
// With fewer postings, adding them is faster than choosing leaves to skip.
constexpr std::size_t kPostingsToSkip = 4096;

class TileScan {
 public:
  TileScan(LexicalRows const& rows, LexicalRequest const& arm, Bm25Query const& query,
           std::span<LeafPostings const> postings, LexicalScratch& scratch)
      : rows_(rows),
        column_(*rows.view.segment().p.lexical[arm.column]),
        arm_(arm),
        query_(query),
        postings_(postings),
        depth_(scratch.best.depth()),
        scratch_(scratch),
        leaves_(scratch.leaves),
        kernels_(cpu::kernels().scores),
        first_(rows.scope.ranges.front().begin),
        last_(rows.scope.ranges.back().end) {
    if (rows.share.n > 1) cut_to_share();
    // Positive scores show which rows a bag matches.
    shows_matches_ = query.query().is_bag && query.is_positive();
    leaves_.clear();
    for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
      LeafPostings const& one = postings[leaf];
      std::uint32_t first = one.begin, end = one.end;
      if (rows.share.n > 1 && first < end) {
        first = std::max(first, one.list.locate(first_));
        end = std::min(end, one.list.locate(last_));
      }
      if (first >= end) continue;
      LeafCursor& scan = leaves_.emplace_back(LeafCursor{&one, leaf});
      scan.first = first;
      scan.end = end;
      scan.prefetch(first);
    }
  }

  bool is_empty() const { return leaves_.empty(); }

  void run() {
    if (scratch_.scores.empty()) {
      scratch_.scores.resize(kDocTileRows, 0.0f);
      scratch_.places.resize(kSiftChunk + cpu::kSiftSpare);
      scratch_.values.resize(kSiftChunk + cpu::kSiftSpare);
    }
    if (!shows_matches_) {
      scratch_.by_leaf.assign(postings_.size(), kNone32);
      for (std::uint32_t i = 0; i < leaves_.size(); ++i) scratch_.by_leaf[leaves_[i].leaf] = i;
    }
    scratch_.tables.make(query_, column_, leaves_);
    begin_skipping();
    scratch_.best.begin(rows_.segment, rows_.view.segment().p.seqs.data(), least_score());
    if (pass(can_guess())) return;
    // The guess was too high. No rows of other segments have been offered yet.
    scratch_.best.reset(depth_);
    scratch_.best.begin(rows_.segment, rows_.view.segment().p.seqs.data(), least_score());
    pass(false);
  }

 private:
  void cut_to_share() {
    LexicalShare const& share = rows_.share;
    std::uint64_t const begin = first_ / kDocTileRows;
    std::uint64_t const n_tiles = (last_ + kDocTileRows - 1) / kDocTileRows - begin;
    auto const border = [&](std::uint64_t at) {
      return static_cast<Row>((begin + n_tiles * at / share.n) * kDocTileRows);
    };
    first_ = std::max(first_, border(share.number));
    last_ = std::min(last_, border(share.number + 1));
  }

  // Shares its threshold with the other shares, and takes theirs if it is higher. A guess that
  // `depth` rows have not reached yet is not shared.
  void tell_others() {
    TopRows& best = scratch_.best;
    std::atomic<float>& reached = *rows_.share.reached;
    float known = reached.load(std::memory_order_relaxed);
    if (known >= best.threshold()) {
      best.expect(known);
      guessed_ = false;  // rows below the guess are below this
    } else if (!guessed_ || best.size() >= depth_) {
      float const mine = best.threshold();
      while (known < mine &&
             !reached.compare_exchange_weak(known, mine, std::memory_order_relaxed)) {
      }
    }
  }

  // The score that a row must reach from the start.
  float least_score() const {
    if (!query_.is_positive()) return -std::numeric_limits<float>::infinity();
    float least = kLeastPositive;
    if (arm_.floor.set) least = std::max(least, arm_.floor.value);
    if (!shows_matches_ || !rows_.is_whole) return least;
    // If enough documents hold the leaf, each scores at least the leaf's least impact: a sum of
    // positive numbers is not below any of them, however it is rounded.
    for (LeafCursor const& one : leaves_) {
      if (one.postings->n_in_scope() >= depth_)
        least = std::max(least, query_.least_impact(one.leaf, column_.max_length()));
    }
    return least;
  }

  bool can_guess() const {
    return shows_matches_ && depth_ >= kGuessDepth && scratch_.best.size() == 0 &&
           (last_ - first_) / kDocTileRows >= kGuessTiles;
  }

  // Returns false if the guess was too high.
  bool pass(bool may_guess) {
    selected_ = 0;
    for (LeafCursor& one : leaves_) one.rewind(first_);
    guessed_ = false;
    // Until one tile has been scanned in full, most rows reach the threshold.
    bool has_threshold = scratch_.best.size() >= depth_;
    for (;;) {
      std::uint32_t tile = kNone32;
      for (LeafCursor const& one : leaves_) tile = std::min(tile, one.tile);
      if (tile == kNone32) break;
      base_ = tile * kDocTileRows;
      begin_ = std::max(first_, base_) - base_;
      end_ = std::min(last_ - base_, kDocTileRows);
      if (may_skip_) scratch_.best.tighten();
      bool const skips =
          may_skip_ && has_threshold && scratch_.skipped.choose(scratch_.best.threshold());
      std::uint64_t n_postings = 0, n_left_out = 0;
      for (std::size_t i = 0; i < leaves_.size(); ++i) {
        LeafCursor& one = leaves_[i];
        one.begin = one.at;
        if (one.tile != tile) continue;
        if (skips && scratch_.skipped.skips(i)) {
          n_left_out += one.pass_over(base_ + end_);
        } else {
          n_postings += add_tile(one);
        }
      }
      if (!shows_matches_) {
        offer_matched(n_postings);
      } else if (skips) {
        offer_partial(n_postings, n_left_out);
      } else {
        find_best(n_postings);
      }
      has_threshold = true;
      if (rows_.share.reached != nullptr) tell_others();
      if (may_guess) {
        guessed_ = guess(end_ - begin_);
        may_guess = false;
      }
    }
    return !guessed_ || scratch_.best.size() >= depth_;
  }

  // Guesses a lower bound of the k-th best score from the first tile: more of its rows are above
  // it than its share of the best rows (the expected number plus some deviations).
  bool guess(Row n_rows) {
    double const share = static_cast<double>(depth_) * n_rows / (last_ - first_);
    auto const rank = static_cast<std::size_t>(1.2 * share + 2.5 * std::sqrt(share) + 2.0);
    TopRows& best = scratch_.best;
    if (rank >= depth_ || best.size() < rank) return false;
    best.raise(best.nth_score(rank));
    return true;
  }

  // Allows skipping if the query is a positive bag and several leaves have many postings. The first
  // tile sets the threshold, unless another segment did.
  void begin_skipping() {
    bool const has_other_tiles = (last_ - 1) / kDocTileRows > first_ / kDocTileRows;
    std::size_t n_postings = 0;
    for (LeafCursor const& one : leaves_) n_postings += one.end - one.first;
    may_skip_ = shows_matches_ && leaves_.size() > 1 && n_postings >= kPostingsToSkip &&
                (has_other_tiles || scratch_.best.size() >= depth_);
    if (!may_skip_) return;
    scratch_.greatest.clear();
    for (LeafCursor const& one : leaves_) {
      scratch_.greatest.push_back(
          greatest_impact(query_, one.leaf, one.postings->list, column_.min_length()));
    }
    scratch_.skipped.begin(scratch_.greatest);
    may_skip_ = scratch_.partial.begin(rows_.view.segment(), arm_.column, query_, postings_,
                                       leaves_, scratch_.greatest);
  }

  // Scores the rows whose partial sums may reach the threshold; adds all leaves if these are many.
  void offer_partial(std::uint64_t n_added, std::uint64_t n_left_out) {
    PartialRows& partial = scratch_.partial;
    SkippedLeaves& skipped = scratch_.skipped;
    partial.clear();
    find(
        n_added, [&] { return skipped.cut(); },
        [&](float sum, Row row) {
          if (rows_.is_whole || is_selected(row)) partial.add(row, sum);
        });
    SkippedLeaves::Work work{n_added, n_left_out, partial.narrow(skipped)};
    work.n_rows = partial.rows().size();
    if (!skipped.pays(work)) {
      for (LeafCursor& one : leaves_) {
        if (one.step_back(base_ / kDocTileRows, base_ + begin_)) add_tile(one);
      }
      find_best(n_added + n_left_out);
      return;
    }
    column_.count_left_out(n_left_out);
    partial.finish();
    for (std::size_t i = 0; i < work.n_rows; ++i) {
      if (partial.scores()[i] < scratch_.best.threshold()) continue;
      work.n_found += 1;
      offer(partial.scores()[i], partial.rows()[i]);
    }
    skipped.tell(work);
  }

  // Adds a leaf's impacts on the rows of its next tile; returns their number.
  std::uint32_t add_tile(LeafCursor& one) {
    PostingList const& list = one.postings->list;
    std::uint32_t const end = one.announce_tile();
    float* const scores = scratch_.scores.data();
    query_.with_impact(one.leaf, [&](auto impact) {
      if (one.table != nullptr) {
        kernels_.add_coded(list.data + std::size_t{one.at} * PostingFormat::kCompact, end - one.at,
                           one.table, scores);
      } else {
        PostingFormat const format = list.format;
        for (std::uint32_t i = one.at; i < end; ++i) {
          std::uint32_t const bits = list.bits(i);
          std::uint32_t const freq = format.freq(bits);
          if (freq == format.escape()) continue;
          scores[PostingFormat::row(bits)] += impact(
              static_cast<float>(freq + 1), scratch_.tables.norm(query_, format.length(bits)));
        }
      }
      for (; one.escape < list.escapes.size(); ++one.escape) {
        PostingEscape const& escape = list.escapes[one.escape];
        if (escape.row >= base_ + end_) break;
        float const norm = query_.length_norm(column_.doc_length(escape.row));
        scores[escape.row - base_] += impact(static_cast<float>(escape.term_freq), norm);
      }
    });
    one.prefetch(end);
    one.leave_tile(end);
    return end - one.begin;
  }

  // Offers the rows of a tile whose sums have all leaves.
  void find_best(std::uint64_t n_postings) {
    find(
        n_postings, [&] { return scratch_.best.threshold(); },
        [&](float score, Row row) { offer(score, row); });
  }

  // Takes the rows whose sums reach least(), which may rise; all sums are 0 afterwards.
  template <typename Least, typename Take>
  void find(std::uint64_t n_postings, Least const& least, Take const& take) {
    if (n_postings * kRowsAPosting < end_ - begin_) {
      walk_positive(least, take);
    } else {
      sift(least, take);
    }
  }

  // Takes the rows of a tile's postings, each once, without an unpredictable branch on a score: a
  // row that was taken before has the sum 0, below any threshold of a positive query.
  template <typename Least, typename Take>
  void walk_positive(Least const& least, Take const& take) {
    float* const scores = scratch_.scores.data();
    std::uint32_t* const places = scratch_.places.data();
    float* const values = scratch_.values.data();
    for (LeafCursor const& one : leaves_) {
      PostingList const& list = one.postings->list;
      std::size_t const width = list.format.width();
      std::uint8_t const* at = list.data + one.begin * width;
      std::uint8_t const* const end = list.data + one.at * width;
      float const threshold = least();
      std::size_t found = 0;
      for (; at != end; at += width) {
        Row const row = PostingFormat::row_at(at);
        places[found] = row;
        values[found] = scores[row];
        found += scores[row] >= threshold ? 1 : 0;
        scores[row] = 0.0f;
      }
      for (std::size_t i = 0; i < found; ++i) {
        if (values[i] >= least()) take(values[i], base_ + places[i]);
      }
    }
  }

  // Offers the rows of a tile that match, if scores do not show them; all sums are 0 afterwards.
  void offer_matched(std::uint64_t n_postings) {
    Row const first = (base_ + begin_) / kTileRows;
    RowBits rows(first, (base_ + end_ + kTileRows - 1) / kTileRows - first);
    auto const add = [this](std::uint32_t leaf, RowBits& to) {
      if (scratch_.by_leaf[leaf] == kNone32) return;
      LeafCursor const& one = leaves_[scratch_.by_leaf[leaf]];
      for (std::uint32_t i = one.begin; i < one.at; ++i)
        to.set(base_ + PostingFormat::row(one.postings->list.bits(i)));
    };
    add_matched(query_.query(), add, rows);
    float* const scores = scratch_.scores.data();
    for (Row i = 0; i < rows.masks().size(); ++i) {
      for_each_bit(rows.masks()[i], [&](Row bit) {
        Row const row = (first + i) * kTileRows + bit;
        float const score = scores[row - base_];
        if (score >= scratch_.best.threshold()) offer(score, row);
      });
    }
    if (n_postings * kRowsAPosting >= end_ - begin_)
      return std::fill(scores + begin_, scores + end_, 0.0f);
    for (LeafCursor const& one : leaves_) {
      for (std::uint32_t i = one.begin; i < one.at; ++i)
        scores[PostingFormat::row(one.postings->list.bits(i))] = 0.0f;
    }
  }

  template <typename Least, typename Take>
  void sift(Least const& least, Take const& take) {
    std::uint32_t const last = (end_ + cpu::kSiftRows - 1) / cpu::kSiftRows * cpu::kSiftRows;
    for (std::uint32_t at = begin_ / cpu::kSiftRows * cpu::kSiftRows; at < last; at += kSiftChunk) {
      std::size_t const found =
          kernels_.sift(scratch_.scores.data() + at, std::min(kSiftChunk, last - at), least(),
                        scratch_.places.data(), scratch_.values.data());
      for (std::size_t i = 0; i < found; ++i) {
        if (scratch_.values[i] >= least())
          take(scratch_.values[i], base_ + at + scratch_.places[i]);
      }
    }
  }

  void offer(float score, Row row) {
    if (!arm_.floor.passes(score)) return;
    if (!rows_.is_whole && !is_selected(row)) return;
    scratch_.best.offer(score, row);
  }

  bool is_selected(Row row) {
    Row const tile = row / kTileRows;
    auto const& tiles = rows_.tiles;
    // In a sift rows ascend, so the next is near; in a walk they may go back.
    if (selected_ >= tiles.size() || tiles[selected_].tile != tile) {
      auto const at = std::partition_point(tiles.begin(), tiles.end(),
                                           [&](auto& one) { return one.tile < tile; });
      selected_ = static_cast<std::size_t>(at - tiles.begin());
    }
    return selected_ < tiles.size() && tiles[selected_].tile == tile &&
           tiles[selected_].mask.test(row % kTileRows);
  }

  LexicalRows const& rows_;
  LexicalColumn const& column_;
  LexicalRequest const& arm_;
  Bm25Query const& query_;
  std::span<LeafPostings const> postings_;
  std::size_t depth_;
  LexicalScratch& scratch_;
  std::vector<LeafCursor>& leaves_;  // those that occur in the scope, in the order of adding
  cpu::ScoreKernels const& kernels_;
  Row first_;  // the scope lies in [first_, last_)
  Row last_;
  bool shows_matches_ = true;  // a row matches if its score is positive
  Row base_ = 0;               // first row of the present tile
  Row begin_ = 0;              // its rows in [first_, last_), from its base
  Row end_ = 0;
  std::size_t selected_ = 0;
  bool guessed_ = false;   // the threshold is a guess
  bool may_skip_ = false;  // leaves may be left out of a tile's sums
};

}  // namespace

void scan_tiles(LexicalRows const& rows, LexicalRequest const& arm, Bm25Query const& query,
                std::span<LeafPostings const> postings, LexicalScratch& scratch) {
  if (rows.scope.ranges.empty() || (!rows.is_whole && rows.tiles.empty())) return;
  TileScan scan(rows, arm, query, postings, scratch);
  if (!scan.is_empty()) scan.run();
}

}  // namespace hyrecall
