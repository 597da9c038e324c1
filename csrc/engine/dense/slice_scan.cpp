// A cohort reads a slice of the rows tile by tile. Of each tile, 16 or 32 rows at a time meet the
// cohort's queries panel by panel: the rows stay in the first-level cache, the queries in the
// second.
//
// Where the segment has heads, these are read first. A query *looks* at a block only if the head of
// one of its rows passes: at the row itself, or at the block of the int8 plane where several pass.
// Where looks cost more than heads save, the cohort reads the int8 plane alone for some windows,
// then tries heads again.
#include "engine/dense/slice_scan.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <optional>

#include "core/interrupt.hpp"
#include "engine/dense/blocks_ahead.hpp"
#include "engine/dense/head_balance.hpp"
#include "engine/dense/int8_plane.hpp"
#include "engine/dense/layer.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr Row kWindowTiles = 32;        // thresholds are looked at so often
constexpr std::size_t kLooksAhead = 6;  // looks that wait until memory answers

// Rows of a block whose heads passed a query.
struct Look {
  Row block;
  std::uint32_t query;  // in the order of the cohort
  std::uint32_t passed;
};

// One thread's way through a slice of the rows of a cohort.
class SliceScan {
 public:
  SliceScan(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
            QueryCohort const& cohort, QueryHeads heads, std::span<DenseCollector> queries)
      : snapshot_(snapshot),
        arm_(arm),
        audience_(audience),
        cohort_(cohort),
        heads_(heads),
        queries_(queries),
        kernels_(cpu::kernels().first_pass_for(queries.size())),
        masks_(queries.size()),
        left_(cohort.members.size()) {
    std::size_t first = 0;
    for (CohortMember const& member : cohort.members) {
      firsts_.push_back(first);
      first += member.queries.size();
    }
    firsts_.push_back(first);
  }

  void run(std::size_t slice) {
    bool const reads_plane = !cohort_.is_plain;
    std::optional<cpu::FirstPassSession> session;
    if (reads_plane) session.emplace(kernels_);
    for (std::uint32_t s = 0; s < snapshot_.segments.size(); ++s) {
      begin_segment(s, slice);
      while (begin_window()) {
        poll_interrupt();
        for (Row tile = next_tile(); tile < window_end_; tile = next_tile()) scan_tile(tile);
        end_window();
      }
      if (has_plane_) {
        column_->plane_use.n_windows.fetch_add(n_windows_, std::memory_order_relaxed);
        column_->plane_use.n_plain.fetch_add(n_plain_, std::memory_order_relaxed);
      }
    }
  }

 private:
  void begin_segment(std::uint32_t number, std::size_t slice) {
    number_ = number;
    n_windows_ = n_plain_ = 0;
    segment_ = &snapshot_.segments[number]->segment();
    column_ = segment_->p.dense[arm_.column].get();
    has_plane_ = !cohort_.is_plain && !column_->plane.empty();
    has_heads_ = has_plane_ && cohort_.reads_heads && !heads_[number].empty();
    if (has_plane_) begin_layers();
    Row begin = std::numeric_limits<Row>::max();
    Row end = 0;
    for (CohortMember const& member : cohort_.members) {
      auto const& tiles = audience_.tiles(member.group)[number];
      if (tiles.empty()) continue;
      begin = std::min(begin, tiles.front().tile);
      end = std::max(end, tiles.back().tile + 1);
    }
    auto const border = [&](std::size_t at) {
      return static_cast<Row>(begin + std::uint64_t{end - begin} * at / cohort_.n_slices);
    };
    for (std::size_t m = 0; m < left_.size(); ++m) {
      left_[m] = audience_.tiles(cohort_.members[m].group)[number];
      if (begin < end) left_[m] = between(left_[m], border(slice), border(slice + 1));
    }
    front_ = nullptr;
  }

  void begin_layers() {
    whole_.begin(column_->plane, column_->dim);
    std::vector<QuantizedQuery const*> wholes;
    for (DenseCollector const& one : queries_) wholes.push_back(&one.quantized());
    if (!whole_.panels) whole_.panels.emplace(kernels_, wholes, column_->dim);
    if (!has_heads_) return;
    Head const& head = column_->head;
    head_.begin(head.plane, head.directions->head_dim());
    std::vector<QuantizedQuery const*> heads;
    for (DenseCollector const& one : queries_) heads.push_back(&heads_[number_][one.query()]);
    head_.panels.emplace(kernels_, heads, head_.dim);
    if (!lookers_) lookers_.emplace(look_kernels(), wholes, column_->dim, 1);
    balance_ = {};
  }

  // A query looks alone, so the kernels of few queries serve it.
  static cpu::FirstPassKernels const& look_kernels() { return cpu::kernels().first_pass_for(1); }

  static std::span<SelectedTile const> between(std::span<SelectedTile const> tiles, Row begin,
                                               Row end) {
    auto const before = [](SelectedTile const& one, Row tile) { return one.tile < tile; };
    auto const first = std::lower_bound(tiles.begin(), tiles.end(), begin, before);
    return {first, std::lower_bound(first, tiles.end(), end, before)};
  }

  // The members with rows in the next window that has any.
  bool begin_window() {
    Row first = std::numeric_limits<Row>::max();
    for (auto const& tiles : left_) {
      if (!tiles.empty()) first = std::min(first, tiles.front().tile);
    }
    if (first == std::numeric_limits<Row>::max()) return false;
    window_end_ = (first / kWindowTiles + 1) * kWindowTiles;
    here_.clear();
    any_plain_ = false;
    if (has_plane_) choose_front(first);
    for (std::size_t m = 0; m < left_.size(); ++m) {
      if (left_[m].empty() || left_[m].front().tile >= window_end_) continue;
      here_.push_back(m);
      n_windows_ += firsts_[m + 1] - firsts_[m];
      for (std::size_t q = firsts_[m]; q < firsts_[m + 1]; ++q) {
        bool const is_plain = queries_[q].begin_window();
        any_plain_ = any_plain_ || is_plain;
        n_plain_ += is_plain ? 1 : 0;
        if (has_plane_) set_cut(q);
      }
    }
    return true;
  }

  // Of a window that begins there: heads, where they pay, or the int8 plane.
  void choose_front(Row first) {
    double const saved = has_heads_ ? 1.0 - static_cast<double>(head_.dim) / whole_.dim : 0.0;
    bool const reads_heads = has_heads_ && balance_.begin_window(kWindowTiles * kTileBlocks, saved);
    read_from(reads_heads ? &head_ : &whole_, first);
  }

  void read_from(Layer* front, Row first) {
    Row const n_blocks = static_cast<Row>((segment_->n_rows() + kBlockRows - 1) / kBlockRows);
    front->plane->check_late(front->dim, first * kTileBlocks,
                             std::min(window_end_ * kTileBlocks, n_blocks));
    if (front == front_) return;
    front_ = front;
    if (left_.size() != 1) return;
    ahead_ = BlocksAhead(left_.front());
    for (Row n = 0; n < front_->ahead_blocks; ++n) ahead_.next();
  }

  void end_window() {
    while (!looks_.empty()) look();
    if (!has_heads_) return;
    balance_.end_window();
    for (std::size_t m : here_) {
      for (std::size_t q = firsts_[m]; q < firsts_[m + 1]; ++q) queries_[q].settle_early();
    }
  }

  void set_cut(std::size_t q) {
    DenseCollector const& query = queries_[q];
    float const never = std::numeric_limits<float>::infinity();
    whole_.panels->cut(q) = query.is_plain() ? never : query.cut();
    if (!has_heads_) return;
    QueryBound const& bound = heads_[number_][query.query()].bound;
    head_.panels->cut(q) = query.is_plain() ? never : cut_for(query.threshold(), bound);
  }

  Row next_tile() const {
    Row tile = std::numeric_limits<Row>::max();
    for (std::size_t m : here_) {
      if (!left_[m].empty()) tile = std::min(tile, left_[m].front().tile);
    }
    return tile;
  }

  void leave_the_plane() {
    any_exploded_ = false;
    for (DenseCollector& query : queries_) {
      if (!query.has_exploded()) continue;
      query.go_plain();
      any_plain_ = true;
      ++n_plain_;
    }
    for (std::size_t q = 0; q < queries_.size(); ++q) set_cut(q);
  }

  void scan_tile(Row tile) {
    if (any_exploded_) leave_the_plane();
    if (has_heads_ && balance_.is_spent()) {
      balance_.fail();
      read_from(&whole_, tile);
    }
    TileMask all;
    std::size_t n_present = 0;
    present_.clear();
    for (std::size_t m : here_) {
      if (left_[m].empty() || left_[m].front().tile != tile) continue;
      SelectedTile const selected = left_[m].front();
      left_[m] = left_[m].subspan(1);
      all = all | selected.mask;
      present_.push_back(m);
      n_present += firsts_[m + 1] - firsts_[m];
      for (std::size_t q = firsts_[m]; q < firsts_[m + 1]; ++q) {
        masks_[q] = selected.mask;
        bool const is_plain = !has_plane_ || (any_plain_ && queries_[q].is_plain());
        if (is_plain) queries_[q].score_tile(*column_, segment_->p.seqs.span(), number_, selected);
      }
    }
    if (has_plane_) {
      read_front(tile, all, n_present);
    }
    for (std::size_t m : present_) {
      for (std::size_t q = firsts_[m]; q < firsts_[m + 1]; ++q) masks_[q] = {};
    }
  }

  void read_front(Row tile, TileMask all, std::size_t n_present) {
    bool const everyone = n_present == queries_.size();
    QueryPanels const& panels = *front_->panels;
    Row const first_block = tile * kTileBlocks;
    auto const n_blocks = static_cast<Row>((segment_->n_rows() + kBlockRows - 1) / kBlockRows);
    for (Row block = 0; block < kTileBlocks && first_block + block < n_blocks; ++block) {
      if (!wants(all, block)) continue;
      Row const at = first_block + block;
      bool const is_pair = call_blocks() == 2 && block + 1 < kTileBlocks && at + 1 < n_blocks &&
                           wants(all, block + 1);
      cpu::FirstPassRows const rows = front_->rows(at, is_pair ? 2 : 1);
      // What is read soon comes while the first panels are at work: where there are four, half a
      // block with each, since lines that are asked for as fast as a panel can are waited for by
      // the next.
      Row const soon[2] = {block_ahead(at), is_pair ? block_ahead(at + 1) : kNone32};
      std::size_t const n_parts = everyone && panels.size() >= 4 ? 2 : 1;  // of a block
      std::size_t part = 0;
      for (std::size_t p = 0; p < panels.size(); ++p) {
        if (!everyone && !is_present(p)) continue;
        cpu::FirstPassPrefetch ahead;
        if (Row const next = part < 2 * n_parts ? soon[part / n_parts] : kNone32; next < n_blocks) {
          std::size_t const half = cpu::int8_block_bytes(front_->dim) / 2;
          ahead = {front_->codes(next) + part % n_parts * half, n_parts == 2 ? 1 : 0};
        }
        ++part;
        std::uint32_t any = kernels_.find_rows(rows, front_->dim, panels[p], ahead, hits_);
        for (; any != 0; any &= any - 1)
          take(p * panels.width(), static_cast<std::size_t>(std::countr_zero(any)), at,
               block * kBlockRows);
      }
      if (is_pair) ++block;
    }
  }

  // The block to ask for while this one is read. Members that take turns are read as one stream.
  Row block_ahead(Row at) { return left_.size() == 1 ? ahead_.next() : at + front_->ahead_blocks; }

  // A single panel is bound by memory: one stream is read fastest. More are bound by products, and
  // two blocks share what is loaded of a panel.
  int call_blocks() const { return front_->panels->size() == 1 ? 1 : cpu::kFirstPassBlocks; }
  static_assert(cpu::kFirstPassBlocks == 2);

  bool is_present(std::size_t panel) const {
    std::size_t const begin = panel * front_->panels->width();
    std::size_t const end = std::min(queries_.size(), begin + front_->panels->width());
    return std::any_of(masks_.begin() + static_cast<std::ptrdiff_t>(begin),
                       masks_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](TileMask mask) { return mask.any(); });
  }

  // Rows of a block, or of two, that pass the front of a query.
  void take(std::size_t panel_first, std::size_t in_panel, Row block, Row first) {
    std::size_t const q = panel_first + in_panel;
    std::uint32_t const passed = hits_.rows[in_panel] & masks_[q].bits_from(first);
    if (front_ == &head_) {
      for (Row b = 0; b < cpu::kFirstPassBlocks; ++b) {
        if (std::uint32_t const own = passed >> (b * kBlockRows) & 0xffff; own != 0)
          look_later({block + b, static_cast<std::uint32_t>(q), own});
      }
    } else {
      await(q, passed, block, hits_.reach[in_panel]);
    }
  }

  void await(std::size_t q, std::uint32_t passed, Row block, float const* reach) {
    DenseCollector& query = queries_[q];
    for (; passed != 0; passed &= passed - 1) {
      auto const i = static_cast<Row>(std::countr_zero(passed));
      query.wait(reach[i], {number_, block * kBlockRows + i});
    }
    any_exploded_ = any_exploded_ || query.has_exploded();
    set_cut(q);
  }

  static bool reads_rows(Look const& one) { return std::popcount(one.passed) <= kFewRows; }

  void look_later(Look const& one) {
    if (reads_rows(one)) {
      std::size_t const n_bytes = std::min<std::size_t>(column_->row_bytes(), 512);
      for (std::uint32_t left = one.passed; left != 0; left &= left - 1) {
        auto const i = static_cast<Row>(std::countr_zero(left));
        ask(column_->row(one.block * kBlockRows + i), n_bytes);
        balance_.spend(kRowCost);
      }
    } else if (looks_.empty() || looks_.back().block != one.block) {
      ask(whole_.codes(one.block), cpu::int8_block_bytes(whole_.dim));
      balance_.spend(kBlockCost);
    }
    looks_.push_back(one);
    if (looks_.size() > kLooksAhead) look();
  }

  static void ask(std::uint8_t const* first, std::size_t n_bytes) {
    for (std::size_t at = 0; at < n_bytes; at += 64) __builtin_prefetch(first + at, 0, 2);
  }

  // The oldest look.
  void look() {
    Look const one = looks_.front();
    looks_.pop_front();
    DenseCollector& query = queries_[one.query];
    if (reads_rows(one)) {
      for (std::uint32_t left = one.passed; left != 0; left &= left - 1) {
        auto const i = static_cast<Row>(std::countr_zero(left));
        query.score_row(*column_, segment_->p.seqs.span(), {number_, one.block * kBlockRows + i});
      }
      return;
    }
    column_->plane.check_late(whole_.dim, one.block, one.block + 1);
    lookers_->cut(one.query) = query.cut();
    std::uint32_t const any = look_kernels().find_rows(whole_.rows(one.block, 1), whole_.dim,
                                                       (*lookers_)[one.query], {}, looked_);
    if (any != 0) await(one.query, looked_.rows[0] & one.passed, one.block, looked_.reach[0]);
  }

  Snapshot const& snapshot_;
  DenseRequest const& arm_;
  Audience const& audience_;
  QueryCohort const& cohort_;
  QueryHeads heads_;
  std::span<DenseCollector> queries_;
  cpu::FirstPassKernels const& kernels_;
  std::vector<std::size_t> firsts_;  // [n_members + 1] the place of a member's first query
  std::vector<TileMask> masks_;      // [n_queries] of this tile; empty: not in it
  std::vector<std::span<SelectedTile const>> left_;  // [n_members] tiles not read yet
  std::vector<std::size_t> here_;                    // members with tiles in this window
  std::vector<std::size_t> present_;                 // members with this tile
  Layer whole_;                                      // the int8 plane
  Layer head_;                                       // where has_heads_
  std::optional<QueryPanels> lookers_;               // of whole vectors, a panel for each query
  Layer* front_ = nullptr;                           // what this window reads
  std::deque<Look> looks_;                           // that are not done yet
  HeadBalance balance_;                              // where has_heads_
  std::uint32_t number_ = 0;                         // of the segment
  Segment const* segment_ = nullptr;
  DenseColumn const* column_ = nullptr;
  bool has_plane_ = false;
  bool has_heads_ = false;
  bool any_plain_ = false;
  bool any_exploded_ = false;
  std::size_t n_windows_ = 0;  // of queries in this segment
  std::size_t n_plain_ = 0;
  Row window_end_ = 0;
  BlocksAhead ahead_;  // of a cohort of one member
  cpu::FirstPassSurvivors hits_;
  cpu::FirstPassSurvivors looked_;
};

}  // namespace

void scan_slice(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
                QueryCohort const& cohort, QueryHeads heads, std::size_t slice,
                std::span<DenseCollector> queries) {
  SliceScan(snapshot, arm, audience, cohort, heads, queries).run(slice);
}

}  // namespace hyrecall
