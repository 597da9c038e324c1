// A term's documents, packed: three or four bytes a posting, in runs by document tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pages.hpp"
#include "core/types.hpp"
#include "kernels/shared/postings.hpp"

namespace hyrecall {

// The postings of a term, by rising row. A view: copies are cheap, and the memory must outlive it.
//
// Legal calls: all functions are const and may be called in any order. Postings are numbered from 0
// to size - 1, runs from 0 to runs.size() - 1. escaped_freq() is only for a row whose posting has
// the escape as its frequency; freq_of() is for any row, and is 0 if the list does not hold it.
// End: locate() returns `size`, and run_from() runs.size(), if no posting is at or after the given
// row or tile. bits() and run_end() must not be called with these.
// Cost: bits() and run_end() are constant. run_from() is constant for a frequent term, which has a
// run in every tile, and a binary search among the runs otherwise. locate() adds a search in one
// run, which reads few postings if rows are spread evenly and some 2 log n of n at most;
// freq_of() adds a binary search among the escapes. for_each() is linear in its postings,
// so is for_range() after one locate(); for_rows() takes at most a locate() per row.
struct PostingList {
  static constexpr std::size_t kAheadBytes = 128 << 10;  // what most systems read ahead at most

  PostingFormat format{PostingFormat::kCompact};
  std::uint8_t const* data = nullptr;
  std::uint32_t size = 0;
  std::span<PostingRun const> runs;        // rising tiles, none empty
  std::span<PostingEscape const> escapes;  // rising rows
  bool is_apart = false;                   // in a file where a page fault loads only one page

  // Call it before postings from `begin` on are read in order: the system starts to load some of
  // them, if they are not in memory. Returns the first posting that it does not load yet, at most
  // `end`.
  std::uint32_t read_ahead(std::uint32_t begin, std::uint32_t end) const {
    if (!is_apart) return end;
    std::size_t const width = format.width();
    end =
        begin + static_cast<std::uint32_t>(std::min<std::size_t>(end - begin, kAheadBytes / width));
    read_ahead_if_absent(data + begin * width, (end - begin) * width);
    return end;
  }
  std::uint32_t bits(std::uint32_t i) const {
    return format.read(data + std::size_t{i} * format.width());
  }
  std::uint32_t run_end(std::size_t run) const {
    return run + 1 < runs.size() ? runs[run + 1].begin : size;
  }
  // The first run of the tile or of one after it.
  std::size_t run_from(std::uint32_t tile) const {
    // Tiles rise, so run i is of tile i or a later one; a frequent term has a run in each tile.
    if (tile < runs.size() && runs[tile].tile == tile) return tile;
    auto const last =
        runs.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(tile, runs.size()));
    auto const at =
        std::partition_point(runs.begin(), last, [&](auto& r) { return r.tile < tile; });
    return static_cast<std::size_t>(at - runs.begin());
  }
  // Prefetches the memory that run_from() and then locate() read first for a row.
  void prefetch_run(Row row) const {
    if (runs.empty()) return;
    __builtin_prefetch(&runs[std::min<std::size_t>(row / kDocTileRows, runs.size() - 1)]);
  }
  void prefetch_posting(std::size_t run, Row row) const {
    if (run == runs.size()) return;
    __builtin_prefetch(data + std::size_t{guess(run, row % kDocTileRows)} * format.width());
  }
  // The first posting in [begin, end) of a run whose row within the tile is at least row_in_tile.
  std::uint32_t locate(std::uint32_t begin, std::uint32_t end, Row row_in_tile) const {
    while (begin < end) {
      std::uint32_t const middle = begin + (end - begin) / 2;
      if (PostingFormat::row_at(data + std::size_t{middle} * format.width()) < row_in_tile) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
  // The same, by doubling steps from a posting that should be near. A binary search of a long run
  // would wait for memory at each of its first steps.
  std::uint32_t locate_from(std::uint32_t near, std::uint32_t begin, std::uint32_t end,
                            Row row_in_tile) const {
    if (begin >= end) return begin;
    auto const is_below = [&](std::uint32_t i) {
      return PostingFormat::row_at(data + std::size_t{i} * format.width()) < row_in_tile;
    };
    std::uint32_t step = 8;  // 24 or 32 bytes: mostly in the same line
    near = std::clamp(near, begin, end - 1);
    if (is_below(near)) {
      begin = near + 1;
      for (; end - begin > step && is_below(begin + step); step *= 2) begin += step + 1;
      end = std::min<std::uint32_t>(end - begin, step) + begin;
    } else {
      end = near;
      for (; end - begin > step && !is_below(end - step); step *= 2) end -= step;
      begin = end - std::min<std::uint32_t>(end - begin, step);
    }
    return locate(begin, end, row_in_tile);
  }
  // The posting of a run where the row would be if rows were spread evenly.
  std::uint32_t guess(std::size_t run, Row row_in_tile) const {
    std::uint32_t const n = run_end(run) - runs[run].begin;  // at most kDocTileRows
    return runs[run].begin + n * row_in_tile / kDocTileRows;
  }
  // The first posting whose row is at least `row`.
  std::uint32_t locate(Row row) const {
    std::size_t const run = run_from(row / kDocTileRows);
    if (run == runs.size()) return size;
    if (runs[run].tile != row / kDocTileRows || row % kDocTileRows == 0) return runs[run].begin;
    return locate_in_run(run, row % kDocTileRows);
  }
  std::uint32_t locate_in_run(std::size_t run, Row row_in_tile) const {
    return locate_from(guess(run, row_in_tile), runs[run].begin, run_end(run), row_in_tile);
  }

  std::uint32_t escaped_freq(Row row) const {
    return std::partition_point(escapes.begin(), escapes.end(),
                                [&](auto& e) { return e.row < row; })
        ->term_freq;
  }
  std::uint32_t freq_of(Row row) const {  // 0 if the row is not in the list
    std::uint32_t const i = locate(row);
    if (i == size || PostingFormat::row(bits(i)) != row % kDocTileRows) return 0;
    std::size_t const run = run_from(row / kDocTileRows);
    if (runs[run].tile != row / kDocTileRows || i >= run_end(run)) return 0;
    std::uint32_t const freq = format.freq(bits(i));
    return freq == format.escape() ? escaped_freq(row) : freq + 1;
  }

  // Calls f(i, term_freq) for each of the ascending rows that the list holds; rows[i] is the row.
  // Rows near each other are found by steps from one to the next.
  template <typename F>
  void for_rows(std::span<Row const> rows, F&& f) const {
    constexpr std::uint32_t kSteps = 8;  // postings read before the run is searched
    std::size_t run = runs.size();
    std::uint32_t at = 0, stop = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::uint32_t const tile = rows[i] / kDocTileRows, row = rows[i] % kDocTileRows;
      if (run == runs.size() || runs[run].tile < tile) {
        run = run_from(tile);
        if (run == runs.size()) return;
        at = locate(runs[run].begin, run_end(run), runs[run].tile == tile ? row : 0);
        stop = run_end(run);
      }
      if (runs[run].tile != tile) continue;
      for (std::uint32_t const last = std::min(stop, at + kSteps);
           at < last && PostingFormat::row(bits(at)) < row;)
        ++at;
      if (at < stop && PostingFormat::row(bits(at)) < row) at = locate(at, stop, row);
      if (at == stop || PostingFormat::row(bits(at)) != row) continue;
      std::uint32_t const freq = format.freq(bits(at));
      f(i, freq == format.escape() ? escaped_freq(rows[i]) : freq + 1);
    }
  }

  // Calls f(row, term_freq) for the postings of the rows [first, last].
  template <typename F>
  void for_range(Row first, Row last, F&& f) const {
    std::size_t run = run_from(first / kDocTileRows);
    if (run == runs.size()) return;
    bool const is_inside = runs[run].tile == first / kDocTileRows;
    std::uint32_t at =
        is_inside ? locate(runs[run].begin, run_end(run), first % kDocTileRows) : runs[run].begin;
    for (; run < runs.size(); ++run) {
      Row const base = runs[run].tile * kDocTileRows;
      for (std::uint32_t const stop = run_end(run); at < stop; ++at) {
        std::uint32_t const posting = bits(at);
        Row const row = base + PostingFormat::row(posting);
        if (row > last) return;
        std::uint32_t const freq = format.freq(posting);
        f(row, freq == format.escape() ? escaped_freq(row) : freq + 1);
      }
    }
  }

  // Calls f(row, term_freq) for the postings [begin, end).
  template <typename F>
  void for_each(std::uint32_t begin, std::uint32_t end, F&& f) const {
    if (begin >= end) return;
    auto const first =
        std::partition_point(runs.begin(), runs.end(), [&](auto& r) { return r.begin <= begin; });
    std::uint32_t ahead = begin;
    for (auto run = static_cast<std::size_t>(first - runs.begin()) - 1; begin < end; ++run) {
      if (std::min(end, run_end(run)) > ahead) ahead = read_ahead(begin, end);
      Row const base = runs[run].tile * kDocTileRows;
      for (std::uint32_t const stop = std::min(end, run_end(run)); begin < stop; ++begin) {
        std::uint32_t const posting = bits(begin);
        Row const row = base + PostingFormat::row(posting);
        std::uint32_t const freq = format.freq(posting);
        f(row, freq == format.escape() ? escaped_freq(row) : freq + 1);
      }
    }
  }
};

// A list made for one query: for a phrase, a prefix, or a term in a scope of several ranges.
class OwnPostings {
 public:
  explicit OwnPostings(PostingFormat format) : format_(format) {}
  // Postings that are packed already.
  OwnPostings(PostingFormat format, std::span<std::uint8_t const> bytes,
              std::span<PostingRun const> runs)
      : format_(format), bytes_(bytes.begin(), bytes.end()), runs_(runs.begin(), runs.end()) {}

  void append(Row row, std::uint32_t term_freq, std::uint32_t doc_length) {
    open_run(row / kDocTileRows);
    if (!format_.fits(term_freq, doc_length)) escapes_.push_back({row, term_freq});
    bytes_.resize(bytes_.size() + format_.width());
    format_.write(bytes_.data() + bytes_.size() - format_.width(), row, term_freq, doc_length);
  }
  void append_escape(PostingEscape const& escape) { escapes_.push_back(escape); }

  PostingList list() const {
    return {format_, bytes_.data(), static_cast<std::uint32_t>(bytes_.size() / format_.width()),
            runs_, escapes_};
  }

 private:
  void open_run(std::uint32_t tile) {
    if (!runs_.empty() && runs_.back().tile == tile) return;
    runs_.push_back({tile, static_cast<std::uint32_t>(bytes_.size() / format_.width())});
  }

  PostingFormat format_;
  std::vector<std::uint8_t> bytes_;
  std::vector<PostingRun> runs_;
  std::vector<PostingEscape> escapes_;
};

}  // namespace hyrecall
