// A cohort reads a slice of the rows tile by tile. The products of 16 or 32 rows of a tile with the
// cohort's queries are computed panel by panel: the rows stay in the first-level cache, the queries
// in the second.
//
// If the segment has heads, these are read first. Rows that pass wait with the reach of their
// heads, and those with the highest bounds are scored first; most are never scored. If too many
// pass, the cohort reads only the int8 plane for some windows, then tries heads again.
#include "engine/dense/slice_scan.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/interrupt.hpp"
#include "engine/dense/blocks_ahead.hpp"
#include "engine/dense/code_plane.hpp"
#include "engine/dense/head_balance.hpp"
#include "engine/dense/layer.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr Row kWindowTiles = 32;  // shared thresholds are read once a window

// The scan of a slice of a cohort's rows by one thread.
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
        left_(cohort.members.size()),
        balance_(static_cast<double>(cohort.n_rows) / static_cast<double>(cohort.n_slices) *
                 static_cast<double>(queries.size())) {
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
    whole_.begin(column_->plane, column_->dim, kernels_);
    std::vector<QuantizedQuery const*> wholes;
    for (DenseCollector const& one : queries_) wholes.push_back(&one.quantized());
    if (!whole_.panels) whole_.panels.emplace(kernels_, wholes, column_->dim);
    if (!has_heads_) return;
    Head const& head = column_->head;
    head_.begin(head.plane, head.directions->head_dim(), kernels_);
    std::vector<QuantizedQuery const*> heads;
    moves_.clear();
    for (DenseCollector const& one : queries_) {
      heads.push_back(&heads_[number_][one.query()]);
      moves_.push_back(reach_move(heads.back()->bound, one.quantized().bound));
    }
    head_.panels.emplace(*head_.kernels, heads, head_.dim);
  }

  static std::span<SelectedTile const> between(std::span<SelectedTile const> tiles, Row begin,
                                               Row end) {
    auto const before = [](SelectedTile const& one, Row tile) { return one.tile < tile; };
    auto const first = std::lower_bound(tiles.begin(), tiles.end(), begin, before);
    return {first, std::lower_bound(first, tiles.end(), end, before)};
  }

  // Finds the next window that holds rows of a member, and its members; false at the end.
  bool begin_window() {
    Row first = std::numeric_limits<Row>::max();
    for (auto const& tiles : left_) {
      if (!tiles.empty()) first = std::min(first, tiles.front().tile);
    }
    if (first == std::numeric_limits<Row>::max()) return false;
    window_end_ = (first / kWindowTiles + 1) * kWindowTiles;
    here_.clear();
    any_plain_ = false;
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
    if (has_plane_) choose_front(first);
    return true;
  }

  // Chooses the plane that the window from `first` on reads: heads, if they pay, or the int8 plane.
  void choose_front(Row first) {
    bool reads_heads = false;
    if (has_heads_) {
      auto const bytes = [](Layer const& one) {
        return static_cast<double>(one.block_bytes + 128);
      };
      std::size_t n_queries = 0;
      for (std::size_t m : here_) n_queries += firsts_[m + 1] - firsts_[m];
      double const n_rows = static_cast<double>(kWindowTiles * kTileRows * n_queries);
      reads_heads = balance_.begin_window(n_rows, 1.0 - bytes(head_) / bytes(whole_));
    }
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

  std::size_t n_loose() const {
    std::size_t n = 0;
    for (DenseCollector const& query : queries_) n += query.n_loose();
    return n;
  }

  // Whether too many rows wait even after the thresholds were raised.
  bool should_leave_heads() {
    if (front_ != &head_ || !balance_.is_spent_by(n_loose())) return false;
    for (std::size_t q = 0; q < queries_.size(); ++q) {
      queries_[q].settle_loose();
      set_cut(q);
    }
    if (!balance_.is_spent_by(n_loose())) return false;
    balance_.fail();
    return true;
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
    if (has_heads_ && should_leave_heads()) read_from(&whole_, tile);
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
      if (panels.size() == 1) front_->ask_for_scales(at + front_->ahead_blocks);
      // Prefetch the next blocks during the first panels; with four panels or more, half a block
      // with each. Prefetching faster than one panel consumes lines only stalls the next panel.
      Row const soon[2] = {block_ahead(at), is_pair ? block_ahead(at + 1) : kNone32};
      std::size_t const n_parts = everyone && panels.size() >= 4 ? 2 : 1;  // of a block
      std::size_t part = 0;
      for (std::size_t p = 0; p < panels.size(); ++p) {
        if (!everyone && !is_present(p)) continue;
        cpu::FirstPassPrefetch ahead;
        if (Row const next = part < 2 * n_parts ? soon[part / n_parts] : kNone32; next < n_blocks) {
          std::size_t const half = front_->block_bytes / 2;
          ahead = {front_->codes(next) + part % n_parts * half, n_parts == 2 ? 1 : 0};
        }
        ++part;
        std::uint32_t any = front_->kernels->find_rows(rows, front_->dim, panels[p], ahead, hits_);
        for (; any != 0; any &= any - 1)
          take(p * panels.width(), static_cast<std::size_t>(std::countr_zero(any)), at,
               block * kBlockRows);
      }
      if (is_pair) ++block;
    }
  }

  // The block to prefetch while this one is read. For several members, the next one in memory.
  Row block_ahead(Row at) { return left_.size() == 1 ? ahead_.next() : at + front_->ahead_blocks; }

  // With a single panel memory is the bound, and one stream is read fastest. With more panels the
  // products are the bound, and two blocks share each load of a panel.
  int call_blocks() const { return front_->panels->size() == 1 ? 1 : cpu::kFirstPassBlocks; }
  static_assert(cpu::kFirstPassBlocks == 2);

  bool is_present(std::size_t panel) const {
    std::size_t const begin = panel * front_->panels->width();
    std::size_t const end = std::min(queries_.size(), begin + front_->panels->width());
    return std::any_of(masks_.begin() + static_cast<std::ptrdiff_t>(begin),
                       masks_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](TileMask mask) { return mask.any(); });
  }

  // Gives a query's collector the rows of a block, or of two, that passed its front.
  void take(std::size_t panel_first, std::size_t in_panel, Row block, Row first) {
    std::size_t const q = panel_first + in_panel;
    std::uint32_t passed = hits_.rows[in_panel] & masks_[q].bits_from(first);
    float const* const reach = hits_.reach[in_panel];
    DenseCollector& query = queries_[q];
    if (front_ == &head_) {
      for (; passed != 0; passed &= passed - 1) {
        auto const i = static_cast<Row>(std::countr_zero(passed));
        query.wait_loosely(moved_reach(reach[i], moves_[q]), {number_, block * kBlockRows + i});
      }
      return;
    }
    for (; passed != 0; passed &= passed - 1) {
      auto const i = static_cast<Row>(std::countr_zero(passed));
      query.wait(reach[i], {number_, block * kBlockRows + i});
    }
    any_exploded_ = any_exploded_ || query.has_exploded();
    set_cut(q);
  }

  Snapshot const& snapshot_;
  DenseRequest const& arm_;
  Audience const& audience_;
  QueryCohort const& cohort_;
  QueryHeads heads_;
  std::span<DenseCollector> queries_;
  cpu::FirstPassKernels const& kernels_;
  std::vector<std::size_t> firsts_;  // [n_members + 1] index of each member's first query
  std::vector<TileMask> masks_;      // [n_queries] rows of this tile; empty: no row of it
  std::vector<std::span<SelectedTile const>> left_;  // [n_members] tiles not read yet
  std::vector<std::size_t> here_;                    // members with tiles in this window
  std::vector<std::size_t> present_;                 // members with this tile
  Layer whole_;                                      // the int8 plane
  Layer head_;                                       // where has_heads_
  Layer* front_ = nullptr;                           // the layer that this window reads
  std::vector<double> moves_;  // [n_queries] from the bound of heads to that of the int8 plane
  HeadBalance balance_;        // of all segments with heads
  std::uint32_t number_ = 0;   // of the segment
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
};

}  // namespace

void scan_slice(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
                QueryCohort const& cohort, QueryHeads heads, std::size_t slice,
                std::span<DenseCollector> queries) {
  SliceScan(snapshot, arm, audience, cohort, heads, queries).run(slice);
}

}  // namespace hyrecall
