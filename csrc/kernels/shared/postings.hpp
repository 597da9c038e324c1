// How a term's documents are packed, for host and device.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "core/types.hpp"

namespace hyrecall {

// The length of a document whose text is null: it is not counted.
inline constexpr std::uint32_t kNoText = kNone32;

// The postings of a term in one tile.
struct PostingRun {
  std::uint32_t tile;   // row / kDocTileRows
  std::uint32_t begin;  // first posting, counted within the term
};

// What a posting's bits cannot say is said here, exactly.
struct PostingEscape {
  Row row;
  std::uint32_t term_freq;
};

// A posting's bits, low first: row within its tile, document length, term frequency - 1. The
// largest value of the last field says that the list's escapes tell the frequency (and the column
// the length). Short texts take three bytes; a column where those seldom suffice takes four.
class PostingFormat {
 public:
  explicit constexpr PostingFormat(std::uint32_t width) : width_(width) {}

  static constexpr std::uint32_t kCompact = 3;
  static constexpr std::uint32_t kWide = 4;

  constexpr std::uint32_t width() const { return width_; }  // bytes
  constexpr unsigned length_bits() const { return width_ == kCompact ? 8 : 14; }
  constexpr std::uint32_t max_length() const { return (1u << length_bits()) - 1; }
  constexpr std::uint32_t escape() const {
    return (1u << (8 * width_ - kDocTileBits - length_bits())) - 1;
  }
  constexpr bool fits(std::uint32_t term_freq, std::uint32_t doc_length) const {
    return term_freq <= escape() && doc_length <= max_length();
  }

  std::uint32_t read(std::uint8_t const* at) const {
    if (width_ == kCompact) return at[0] | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16;
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  }
  void put(std::uint8_t* at, std::uint32_t bits) const {
    std::memcpy(at, &bits, kCompact);
    if (width_ == kWide) at[3] = static_cast<std::uint8_t>(bits >> 24);
  }
  void write(std::uint8_t* at, Row row, std::uint32_t term_freq, std::uint32_t doc_length) const {
    bool const exact = fits(term_freq, doc_length);
    std::uint32_t const freq = exact ? term_freq - 1 : escape();
    std::uint32_t const length = exact ? doc_length : 0;
    put(at, row % kDocTileRows | length << kDocTileBits | freq << (kDocTileBits + length_bits()));
  }

  static constexpr Row row(std::uint32_t bits) { return bits % kDocTileRows; }
  static Row row_at(std::uint8_t const* at) { return (at[0] | Row{at[1]} << 8) % kDocTileRows; }
  constexpr std::uint32_t length(std::uint32_t bits) const {
    return bits >> kDocTileBits & max_length();
  }
  // term frequency - 1, or escape().
  constexpr std::uint32_t freq(std::uint32_t bits) const {
    return bits >> (kDocTileBits + length_bits());
  }

 private:
  std::uint32_t width_;
};

// A lexical column in host memory, as engine/lexical/column.hpp has it.
struct LexicalArrays {
  std::span<std::uint32_t const> doc_lengths;      // [n_rows]
  std::span<std::uint64_t const> posting_offsets;  // [n_terms + 1]
  std::span<std::uint8_t const> postings;          // of PostingFormat(posting_width)
  std::span<std::uint32_t const> run_offsets;      // [n_terms + 1]
  std::span<PostingRun const> runs;
  std::span<std::uint32_t const> escape_offsets;  // [n_terms + 1]
  std::span<PostingEscape const> escapes;
  std::uint32_t posting_width;
};

}  // namespace hyrecall
