// A cohort reads a slice of the rows tile by tile. Of each tile, 16 or 32 rows at a time meet the
// cohort's queries panel by panel: the rows stay in the first-level cache, the queries in the
// second.
#include "engine/dense/slice_scan.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/interrupt.hpp"
#include "engine/dense/int8_plane.hpp"
#include "engine/dense/query_panels.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr Row kWindowTiles = 32;  // thresholds are looked at so often
constexpr Row kBlockRows = cpu::kInt8BlockRows;
constexpr std::size_t kAheadBytes = 16'384;  // far enough that memory answers in time

bool wants(TileMask rows, Row block) {
  return (rows.bits_from(block * kBlockRows) & 0xffff) != 0;
}

// The blocks that a scan will read, some of them ahead of it. In a scope of scattered cells they
// are not the next ones in memory.
class BlocksAhead {
 public:
  BlocksAhead() = default;
  explicit BlocksAhead(std::span<SelectedTile const> tiles) : tiles_(tiles) {}

  Row next() {  // kNone32: there is none
    while (wanted_ == 0) {
      if (tiles_.empty()) return kNone32;
      for (Row block = 0; block < kTileBlocks; ++block)
        wanted_ |= (wants(tiles_.front().mask, block) ? 1u : 0u) << block;
      first_ = tiles_.front().tile * kTileBlocks;
      tiles_ = tiles_.subspan(1);
    }
    Row const at = first_ + static_cast<Row>(std::countr_zero(wanted_));
    wanted_ &= wanted_ - 1;
    return at;
  }

 private:
  std::span<SelectedTile const> tiles_;
  Row first_ = 0;             // block of the tile at hand
  std::uint32_t wanted_ = 0;  // its blocks that are left
};

// One thread's way through a slice of the rows of a cohort.
class SliceScan {
 public:
  SliceScan(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
            QueryCohort const& cohort, std::span<DenseCollector> queries)
      : snapshot_(snapshot),
        arm_(arm),
        audience_(audience),
        cohort_(cohort),
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
    if (has_plane_)
      ahead_blocks_ = static_cast<Row>((kAheadBytes + cpu::int8_block_bytes(column_->dim) - 1) /
                                       cpu::int8_block_bytes(column_->dim));
    if (has_plane_ && !panels_) {
      std::vector<QuantizedQuery const*> quantized;
      for (DenseCollector const& one : queries_) quantized.push_back(&one.quantized());
      panels_.emplace(kernels_, quantized, column_->dim);
    }
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
    if (has_plane_ && left_.size() == 1) {
      ahead_ = BlocksAhead(left_.front());
      for (Row n = 0; n < ahead_blocks_; ++n) ahead_.next();
    }
  }

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
    if (has_plane_) column_->check_plane(first * kTileBlocks, end_block(window_end_));
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
    return true;
  }

  // The end of the blocks of 16 rows before a tile.
  Row end_block(Row tile) const {
    auto const n_blocks = static_cast<Row>((segment_->n_rows() + kBlockRows - 1) / kBlockRows);
    return std::min(tile * kTileBlocks, n_blocks);
  }

  void set_cut(std::size_t q) {
    panels_->cut(q) =
        queries_[q].is_plain() ? std::numeric_limits<float>::infinity() : queries_[q].cut();
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
      read_plane(tile, all, n_present == queries_.size());
    }
    for (std::size_t m : present_) {
      for (std::size_t q = firsts_[m]; q < firsts_[m + 1]; ++q) masks_[q] = {};
    }
  }

  void read_plane(Row tile, TileMask all, bool everyone) {
    Int8Plane const& plane = column_->plane;
    std::size_t const block_bytes = cpu::int8_block_bytes(column_->dim);
    Row const first_block = tile * kTileBlocks;
    auto const n_blocks = static_cast<Row>((segment_->n_rows() + kBlockRows - 1) / kBlockRows);
    for (Row block = 0; block < kTileBlocks && first_block + block < n_blocks; ++block) {
      if (!wants(all, block)) continue;
      Row const at = first_block + block;
      bool const is_pair = call_blocks() == 2 && block + 1 < kTileBlocks && at + 1 < n_blocks &&
                           wants(all, block + 1);
      cpu::FirstPassRows const rows{plane.codes.data() + at * block_bytes,
                                    plane.scales.data() + at * kBlockRows,
                                    plane.residuals.data() + at * kBlockRows, is_pair ? 2 : 1};
      // What is read soon comes while the first panels are at work: where there are four, half a
      // block with each, since lines that are asked for as fast as a panel can are waited for by
      // the next.
      Row const soon[2] = {block_ahead(at), is_pair ? block_ahead(at + 1) : kNone32};
      std::size_t const n_parts = everyone && panels_->size() >= 4 ? 2 : 1;  // of a block
      std::size_t part = 0;
      for (std::size_t p = 0; p < panels_->size(); ++p) {
        if (!everyone && !is_present(p)) continue;
        cpu::FirstPassPrefetch ahead;
        if (Row const next = part < 2 * n_parts ? soon[part / n_parts] : kNone32; next < n_blocks) {
          ahead = {plane.codes.data() + next * block_bytes + part % n_parts * (block_bytes / 2),
                   n_parts == 2 ? 1 : 0};
        }
        ++part;
        std::uint32_t any = kernels_.find_rows(rows, column_->dim, (*panels_)[p], ahead, hits_);
        for (; any != 0; any &= any - 1)
          take(p * panels_->width(), static_cast<std::size_t>(std::countr_zero(any)),
               at * kBlockRows, block * kBlockRows);
      }
      if (is_pair) ++block;
    }
  }

  // The block to ask for while this one is read. Members that take turns are read as one stream.
  Row block_ahead(Row at) { return left_.size() == 1 ? ahead_.next() : at + ahead_blocks_; }

  // A single panel is bound by memory: one stream is read fastest. More are bound by products, and
  // two blocks share what is loaded of a panel.
  int call_blocks() const { return panels_->size() == 1 ? 1 : cpu::kFirstPassBlocks; }
  static_assert(cpu::kFirstPassBlocks == 2);

  bool is_present(std::size_t panel) const {
    std::size_t const begin = panel * panels_->width();
    std::size_t const end = std::min(queries_.size(), begin + panels_->width());
    return std::any_of(masks_.begin() + static_cast<std::ptrdiff_t>(begin),
                       masks_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](TileMask mask) { return mask.any(); });
  }

  void take(std::size_t panel_first, std::size_t in_panel, Row base, Row first) {
    std::size_t const q = panel_first + in_panel;
    DenseCollector& query = queries_[q];
    std::uint32_t passed = hits_.rows[in_panel] & masks_[q].bits_from(first);
    for (; passed != 0; passed &= passed - 1) {
      auto const i = static_cast<Row>(std::countr_zero(passed));
      query.wait(hits_.reach[in_panel][i], {number_, base + i});
    }
    any_exploded_ = any_exploded_ || query.has_exploded();
    set_cut(q);
  }

  Snapshot const& snapshot_;
  DenseRequest const& arm_;
  Audience const& audience_;
  QueryCohort const& cohort_;
  std::span<DenseCollector> queries_;
  cpu::FirstPassKernels const& kernels_;
  std::vector<std::size_t> firsts_;  // [n_members + 1] the place of a member's first query
  std::vector<TileMask> masks_;      // [n_queries] of this tile; empty: not in it
  std::vector<std::span<SelectedTile const>> left_;  // [n_members] tiles not read yet
  std::vector<std::size_t> here_;                    // members with tiles in this window
  std::vector<std::size_t> present_;                 // members with this tile
  std::optional<QueryPanels> panels_;
  std::uint32_t number_ = 0;  // of the segment
  Segment const* segment_ = nullptr;
  DenseColumn const* column_ = nullptr;
  bool has_plane_ = false;
  bool any_plain_ = false;
  bool any_exploded_ = false;
  std::size_t n_windows_ = 0;  // of queries in this segment
  std::size_t n_plain_ = 0;
  Row window_end_ = 0;
  Row ahead_blocks_ = 0;  // between what is read and what is asked for
  BlocksAhead ahead_;     // of a cohort of one member
  cpu::FirstPassSurvivors hits_;
};

}  // namespace

void scan_slice(Snapshot const& snapshot, DenseRequest const& arm, Audience const& audience,
                QueryCohort const& cohort, std::size_t slice, std::span<DenseCollector> queries) {
  SliceScan(snapshot, arm, audience, cohort, queries).run(slice);
}

}  // namespace hyrecall
