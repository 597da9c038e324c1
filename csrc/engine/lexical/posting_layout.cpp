#include "engine/lexical/posting_layout.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

constexpr Row kMinRowsAThread = 4 * kDocTileRows;
// If more than one in so many postings escapes, all postings take a byte more.
constexpr std::uint64_t kPostingsAnEscape = 16;
constexpr std::uint64_t kMaxOffset = 0x7fffffff;  // offsets of Arrow lists
constexpr std::size_t kMinParts = 2;              // at least, for any vocabulary

// A term's postings, runs and escapes in a share of the rows: first their counts, then the places
// where the share begins.
struct TermPlaces {
  std::uint64_t posting = 0;
  std::uint32_t run = 0;
  std::uint32_t escape = 0;
  std::uint32_t last_tile = kNone32;
};

constexpr std::size_t kBytesATerm = sizeof(TermPlaces) + sizeof(std::uint32_t);

// A share: every 2^shift-th term, from term `first` on, in some whole tiles.
struct Share {
  Row begin;
  Row end;
  TermId first;
  int shift;
  std::vector<TermPlaces> terms;  // by term >> shift

  bool holds(TermId term) const { return (term & ((1u << shift) - 1)) == first; }
  TermPlaces& at(TermId term) { return terms[term >> shift]; }

  // Calls f(row, length, term, term_freq) for its terms, by row.
  template <typename F>
  void for_each(LexicalColumn::Parts const& parts, F&& f) const {
    struct Counted {
      TermId term;
      std::uint32_t freq;
    };
    std::vector<Counted> counted;                       // terms of the present document
    std::vector<std::uint32_t> place(terms.size(), 0);  // a term's index in counted, if it is there
    std::uint8_t const* at = parts.forward_bytes.data() + parts.forward_offsets[begin];
    for (Row row = begin; row < end; ++row) {
      std::uint8_t const* const stop = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
      counted.clear();
      for_each_forward_token(at, stop, [&](TermId term, std::uint32_t) {
        if (!holds(term)) return;
        std::uint32_t& i = place[term >> shift];
        if (i < counted.size() && counted[i].term == term) {
          counted[i].freq += 1;
        } else {
          i = static_cast<std::uint32_t>(counted.size());
          counted.push_back({term, 1});
        }
      });
      for (Counted const& one : counted) f(row, parts.doc_lengths[row], one.term, one.freq);
      at = stop;
    }
  }
};

// Cuts one share per thread. The rows are cut first, since a share reads all tokens of its rows.
// But each part of the rows holds a place for each term; so with a large vocabulary there are fewer
// parts, and several threads share the terms of a part.
std::vector<Share> cut_shares(std::size_t n_rows, std::size_t n_terms, int threads,
                              std::size_t vocabulary_bytes) {
  auto const most = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
      static_cast<std::ptrdiff_t>(n_rows / kMinRowsAThread), 1, std::max(threads, 1)));
  std::size_t const a_part = kBytesATerm * std::max<std::size_t>(n_terms, 1);
  std::size_t const n_parts = std::min(most, std::max(kMinParts, vocabulary_bytes / a_part));
  int const shift = std::bit_width(most / n_parts) - 1;
  std::size_t const step = std::size_t{1} << shift;
  std::size_t const n_tiles = (n_rows + kDocTileRows - 1) / kDocTileRows;
  std::vector<Share> shares;
  for (std::size_t i = 0; i < n_parts; ++i) {
    auto const cut = [&](std::size_t s) {
      return static_cast<Row>(std::min(n_rows, n_tiles * s / n_parts * kDocTileRows));
    };
    for (std::size_t first = 0; first < step; ++first)
      shares.push_back({cut(i), cut(i + 1), static_cast<TermId>(first), shift,
                        std::vector<TermPlaces>((n_terms + step - 1 - first) >> shift)});
  }
  return shares;
}

}  // namespace

void lay_out_postings(LexicalColumn::Parts& parts, int threads, std::size_t vocabulary_bytes) {
  std::size_t const n_terms = parts.terms.size();
  std::vector<Share> shares =
      cut_shares(parts.doc_lengths.size(), n_terms, threads, vocabulary_bytes);
  std::vector<std::uint64_t> n_escapes(shares.size());
  auto const count = [&](PostingFormat format) {
    parallel_for(shares.size(), threads, [&](int, std::size_t s) {
      std::fill(shares[s].terms.begin(), shares[s].terms.end(), TermPlaces{});
      std::uint64_t escapes = 0;
      shares[s].for_each(parts,
                         [&](Row row, std::uint32_t length, TermId term, std::uint32_t freq) {
                           TermPlaces& at = shares[s].at(term);
                           at.posting += 1;
                           at.run += at.last_tile != row / kDocTileRows ? 1 : 0;
                           at.last_tile = row / kDocTileRows;
                           bool const escapes_here = !format.fits(freq, length);
                           at.escape += escapes_here ? 1 : 0;
                           escapes += escapes_here ? 1 : 0;
                         });
      n_escapes[s] = escapes;
    });
  };
  PostingFormat format(PostingFormat::kCompact);
  count(format);
  std::uint64_t n_postings = 0;
  std::uint64_t escapes = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    for (TermPlaces const& at : shares[s].terms) n_postings += at.posting;
    escapes += n_escapes[s];
  }
  if (escapes * kPostingsAnEscape > n_postings) {
    format = PostingFormat(PostingFormat::kWide);
    count(format);
  }

  std::vector<std::uint64_t> posting_offsets(n_terms + 1, 0);
  std::vector<std::uint32_t> run_offsets(n_terms + 1, 0);
  std::vector<std::uint32_t> escape_offsets(n_terms + 1, 0);
  TermPlaces next;
  std::uint64_t n_runs = 0;
  for (std::size_t term = 0; term < n_terms; ++term) {
    for (Share& share : shares) {
      if (!share.holds(static_cast<TermId>(term))) continue;
      TermPlaces& place = share.at(static_cast<TermId>(term));
      TermPlaces const here = place;
      place = {next.posting, next.run, next.escape, kNone32};
      next.posting += here.posting;
      next.run += here.run;
      next.escape += here.escape;
      n_runs += here.run;
    }
    require(n_runs <= kMaxOffset, "at most 2^31 runs of postings in a segment");
    posting_offsets[term + 1] = next.posting;
    run_offsets[term + 1] = next.run;
    escape_offsets[term + 1] = next.escape;
  }

  std::vector<std::uint8_t> postings(next.posting * format.width());
  std::vector<PostingRun> runs(next.run);
  std::vector<PostingEscape> escaped(next.escape);
  parallel_for(shares.size(), threads, [&](int, std::size_t s) {
    shares[s].for_each(parts, [&](Row row, std::uint32_t length, TermId term, std::uint32_t freq) {
      TermPlaces& at = shares[s].at(term);
      if (at.last_tile != row / kDocTileRows) {
        at.last_tile = row / kDocTileRows;
        runs[at.run++] = {at.last_tile,
                          static_cast<std::uint32_t>(at.posting - posting_offsets[term])};
      }
      format.write(postings.data() + at.posting * format.width(), row, freq, length);
      at.posting += 1;
      if (!format.fits(freq, length)) escaped[at.escape++] = {row, freq};
    });
  });
  parts.posting_offsets = std::move(posting_offsets);
  parts.posting_width = format.width();
  parts.postings = std::move(postings);
  parts.run_offsets = std::move(run_offsets);
  parts.runs = std::move(runs);
  parts.escape_offsets = std::move(escape_offsets);
  parts.escapes = std::move(escaped);
}

}  // namespace hyrecall
