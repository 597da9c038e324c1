#include "engine/lexical/check.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <string>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

// Reads a LEB128 number of at most 32 bits. Returns false if it has more bits, or if the bytes end
// within it.
bool read_varint(std::uint8_t const*& at, std::uint8_t const* end, std::uint32_t& value) {
  std::uint64_t bits = 0;
  for (int shift = 0; at != end && shift < 35; shift += 7) {
    std::uint8_t const byte = *at++;
    bits |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      value = static_cast<std::uint32_t>(bits);
      return bits <= 0xffffffff;
    }
  }
  return false;
}

constexpr std::size_t kRowsAtOnce = 4096;
constexpr std::size_t kTermsAtOnce = 512;

[[noreturn, gnu::cold]] void refuse(LexicalColumn::Parts const& parts, std::string const& detail) {
  throw Error(ErrorCode::kCorrupt, parts.name, detail);
}

template <typename T>
void check_offsets(LexicalColumn::Parts const& parts, std::span<T const> offsets, std::size_t n,
                   std::size_t n_items, char const* what) {
  if (offsets.size() != n + 1) {
    refuse(parts, "expected " + std::to_string(n + 1) + " offsets of " + what + ", got " +
                      std::to_string(offsets.size()));
  }
  bool const rises = std::is_sorted(offsets.begin(), offsets.end());
  if (!rises || offsets.front() < T{0} || static_cast<std::uint64_t>(offsets.back()) > n_items) {
    refuse(parts, std::string("expected rising offsets of ") + what + " up to " +
                      std::to_string(n_items) + ", got others");
  }
}

// Sums of hashes over tokens and over postings, which must be equal: each counts (term, row) as
// often as the term occurs in the row. The random seed prevents forged files with equal sums.
class Tally {
 public:
  std::uint64_t of(TermId term, Row row) const {
    return detail::multiply_fold(term_ + term * kOdd, row_ + row * kOther);
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL, kOther = 0xd1b54a32d192ed03ULL;
  static std::uint64_t draw() {
    std::random_device source;
    return std::uint64_t{source()} << 32 | source();
  }

  std::uint64_t term_ = draw();
  std::uint64_t row_ = draw();
};

// Nearly every token has one or two bytes, in an order that no branch predictor could learn.
inline bool read_token(std::uint8_t const*& at, std::uint8_t const* end, std::uint32_t& value) {
  if (end - at < 2) return read_varint(at, end, value);
  std::uint32_t const more = at[0] >> 7;
  if ((more & at[1] >> 7) != 0) return read_varint(at, end, value);
  value = (at[0] & 0x7fu) | (at[1] * more) << 7;
  at += 1 + more;
  return true;
}

// The sum of a document's tokens.
std::uint64_t check_document(LexicalColumn::Parts const& parts, Row row, Tally const& tally) {
  auto const fail = [&](char const* got) {
    refuse(parts, "expected whole tokens of known terms at rising positions, got " +
                      std::string(got) + " in row " + std::to_string(row));
  };
  std::uint64_t n_positions = 0;
  std::uint8_t const* at = parts.forward_bytes.data() + parts.forward_offsets[row];
  std::uint8_t const* const end = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
  auto const n_terms = static_cast<std::uint32_t>(parts.terms.size());
  std::uint64_t sum = 0;
  std::uint64_t next = 0;  // the position after the last token
  while (at != end) {
    std::uint32_t value = 0;
    bool whole = read_token(at, end, value);
    std::uint32_t distance = 1;
    if (whole && value == 0) whole = read_varint(at, end, distance) && read_varint(at, end, value);
    if (!whole) fail("a cut one");
    if (value - 1 >= n_terms) fail("another term");  // 0 is the largest then
    next += distance;                                // before the first token: up to distance - 1
    if (next == 0) fail("another position");
    n_positions += distance != 0;
    sum += tally.of(value - 1, row);
  }
  if (next > kBeforeFirst) fail("another position");
  std::uint32_t const length = parts.doc_lengths[row];
  if (n_positions != (length == kNoText ? 0 : length)) fail("another length");
  return sum;
}

// The sum of a term's postings, each counted term-frequency times.
template <std::uint32_t kWidth>
std::uint64_t check_postings(LexicalColumn::Parts const& parts, TermId term, Tally const& tally) {
  auto const fail = [&](char const* got) {
    refuse(parts, "expected postings by rising row with the lengths of their documents, got " +
                      std::string(got) + " of term " + std::to_string(term));
  };
  constexpr PostingFormat kFormat(kWidth);
  std::size_t const n_rows = parts.doc_lengths.size();
  std::uint64_t const first = parts.posting_offsets[term];
  std::uint64_t const size = parts.posting_offsets[term + 1] - first;
  if (size > n_rows) fail("more than rows");
  auto const part = [&](auto const& items, auto const& offsets) {
    return items.span().subspan(offsets[term], offsets[term + 1] - offsets[term]);
  };
  std::span<PostingRun const> const runs = part(parts.runs, parts.run_offsets);
  std::span<PostingEscape const> const escapes = part(parts.escapes, parts.escape_offsets);
  if (runs.empty() != (size == 0) || (size > 0 && runs.front().begin != 0)) fail("other runs");
  std::uint8_t const* at = parts.postings.data() + first * kWidth;
  std::uint64_t sum = 0;
  std::size_t escape = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::uint64_t const begin = runs[run].begin;
    std::uint64_t const end = run + 1 < runs.size() ? runs[run + 1].begin : size;
    std::uint64_t const base = std::uint64_t{runs[run].tile} * kDocTileRows;
    if (end <= begin || end > size || base >= n_rows) fail("other runs");
    if (run > 0 && runs[run].tile <= runs[run - 1].tile) fail("tiles that do not rise");
    std::uint32_t const* const lengths = parts.doc_lengths.data() + base;
    auto const n_here = static_cast<Row>(std::min<std::uint64_t>(n_rows - base, kDocTileRows));
    Row least = 0;  // least allowed value of the next row in the tile
    for (std::uint8_t const* const stop = at + (end - begin) * kWidth; at != stop; at += kWidth) {
      std::uint32_t const bits = kFormat.read(at);
      Row const in_tile = PostingFormat::row(bits);
      if (in_tile < least || in_tile >= n_here) fail("another row");
      least = in_tile + 1;
      auto const row = static_cast<Row>(base + in_tile);
      std::uint32_t freq = kFormat.freq(bits) + 1;
      if (kFormat.freq(bits) == kFormat.escape()) {
        if (escape == escapes.size() || escapes[escape].row != row) fail("other escapes");
        freq = escapes[escape++].term_freq;
        if (kFormat.length(bits) != 0 || kFormat.fits(freq, lengths[in_tile]))
          fail("other escapes");
        if (lengths[in_tile] == kNoText) fail("a row without text");
      } else if (kFormat.length(bits) != lengths[in_tile]) {
        fail("another length");
      }
      sum += freq * tally.of(term, row);
    }
  }
  if (escape != escapes.size()) fail("other escapes");
  return sum;
}

}  // namespace

void check_cuts(LexicalColumn::Parts const& parts, std::span<std::uint64_t const> forward_offsets) {
  std::size_t const n_terms = parts.terms.size();
  if (n_terms >= kNone32) refuse(parts, "expected fewer than 2^32 terms, got more");
  check_offsets(parts, parts.terms.offsets.span(), n_terms, parts.terms.bytes.size(), "terms");
  check_offsets(parts, forward_offsets, parts.doc_lengths.size(), parts.forward_bytes.size(),
                "tokens");
  // A token has a byte at least, so that no sum of lengths or of their squares is too large.
  for (std::size_t row = 0; row < parts.doc_lengths.size(); ++row) {
    std::uint32_t const length = parts.doc_lengths[row];
    if (length != kNoText && length > forward_offsets[row + 1] - forward_offsets[row])
      refuse(parts, "expected lengths of at most the bytes of the tokens, got " +
                        std::to_string(length) + " in row " + std::to_string(row));
  }
}

void check_lexical(LexicalColumn::Parts const& parts, int threads) {
  std::size_t const n_terms = parts.terms.size();
  std::size_t const width = parts.posting_width;
  if (width != PostingFormat::kCompact && width != PostingFormat::kWide)
    refuse(parts, "expected postings of 3 or 4 bytes, got " + std::to_string(width));
  check_offsets(parts, parts.posting_offsets.span(), n_terms, parts.postings.size() / width,
                "postings");
  check_offsets(parts, parts.run_offsets.span(), n_terms, parts.runs.size(), "runs");
  check_offsets(parts, parts.escape_offsets.span(), n_terms, parts.escapes.size(), "escapes");
  Tally const tally;
  std::atomic<std::uint64_t> tokens{0};
  std::atomic<std::uint64_t> postings{0};
  parallel_runs(parts.doc_lengths.size(), kRowsAtOnce, threads, [&](int, std::size_t row) {
    tokens.fetch_add(check_document(parts, static_cast<Row>(row), tally),
                     std::memory_order_relaxed);
  });
  auto const check = width == PostingFormat::kCompact ? check_postings<PostingFormat::kCompact>
                                                      : check_postings<PostingFormat::kWide>;
  parallel_runs(n_terms, kTermsAtOnce, threads, [&](int, std::size_t term) {
    postings.fetch_add(check(parts, static_cast<TermId>(term), tally), std::memory_order_relaxed);
  });
  if (tokens != postings) refuse(parts, "expected postings of the documents' tokens, got others");
}

}  // namespace hyrecall
