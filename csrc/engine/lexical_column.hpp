// One lexical arm of a segment: vocabulary, postings, block bounds, and the forward view (document
// -> terms).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/types.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kNoText =
    kNone32;  // doc_length of a document whose text is null: not in N
inline constexpr std::size_t kBlockSize = 128;     // postings a block; one bound each
inline constexpr std::size_t kFrontierPoints = 4;  // points kept of a block's Pareto frontier
// Cells this large get blocks of their own, so that a bound never mixes them with a neighbour.
inline constexpr Row kOwnBlockRows = 1024;

// A point that no document of the block beats in both coordinates; bounds every k1, b, mean and
// monotone variant.
struct FrontierPoint {
  std::uint32_t term_freq;
  std::uint32_t doc_length;
};

class LexicalColumn {
 public:
  // The parts a file holds; everything else is derived from them.
  struct Parts {
    std::string name;
    Buffer<std::uint32_t> doc_lengths;      // [n_rows], kNoText = null
    Strings terms;                          // [n_terms] by order of first use
    Buffer<std::uint64_t> posting_offsets;  // [n_terms + 1]
    Buffer<Row> posting_rows;               // [n_postings] rising within a term
    Buffer<std::uint32_t> posting_freqs;    // [n_postings] >= 1
    // Per document and distinct term, by rising TermId: LEB128 of (term - previous term),
    // term_freq, and the positions as differences. Deletes, completion, phrases and merges read it.
    Buffer<std::uint64_t> forward_offsets;  // [n_rows + 1]
    Buffer<std::uint8_t> forward_bytes;
    Buffer<std::uint64_t>
        block_offsets;  // [n_terms + 1]; terms with at most kBlockSize postings have no blocks
    Buffer<std::uint64_t> block_begins;  // [n_blocks] first posting of the block
    Buffer<FrontierPoint> frontiers;     // [n_blocks * kFrontierPoints], the last point repeated
  };

  explicit LexicalColumn(Parts parts);
  ~LexicalColumn() { delete sorted_.load(std::memory_order_acquire); }
  LexicalColumn(LexicalColumn const&) = delete;
  LexicalColumn& operator=(LexicalColumn const&) = delete;

  Parts const& parts() const { return parts_; }
  std::string const& name() const { return parts_.name; }
  std::size_t n_rows() const { return parts_.doc_lengths.size(); }
  std::size_t n_terms() const { return parts_.terms.size(); }
  bool has(Row row) const { return parts_.doc_lengths[row] != kNoText; }
  std::uint32_t doc_length(Row row) const { return parts_.doc_lengths[row]; }

  TermId find(std::string_view term) const;                            // kNone32 if it is nowhere
  std::span<TermId const> with_prefix(std::string_view prefix) const;  // in UTF-8 byte order
  std::span<Row const> rows_of(TermId term) const;
  std::span<std::uint32_t const> freqs_of(TermId term) const;

  // Calls f(term, term_freq, reader) for the document's distinct terms; reader(positions) is
  // optional to call.
  template <typename F>
  void for_each_term(Row row, F&& f) const;
  std::uint32_t term_freq(Row row, TermId term) const;
  void positions(Row row, TermId term, std::vector<std::uint32_t>& out) const;
  // Positions at which a document holds any of the terms (rising).
  std::uint32_t count_places(Row row, std::span<TermId const> terms) const;

  std::size_t bytes() const;

 private:
  std::vector<TermId> const& terms_in_order() const;

  Parts parts_;
  Buffer<TermId> slots_;  // open addressing over hash_bytes(term); kNone32 = free
  // By term bytes; made on the first prefix query, by whoever comes first. Owned; a plain pointer,
  // because no fork may meet a lock that is held.
  mutable std::atomic<std::vector<TermId> const*> sorted_{nullptr};
};

// ---- LEB128, 7 bits a byte, low bits first
// ----------------------------------------------------------------------

inline std::uint32_t get_varint(std::uint8_t const*& at) {
  std::uint32_t value = *at & 0x7f;
  for (int shift = 7; (*at++ & 0x80) != 0; shift += 7)
    value |= static_cast<std::uint32_t>(*at & 0x7f) << shift;
  return value;
}

template <typename F>
void LexicalColumn::for_each_term(Row row, F&& f) const {
  std::uint8_t const* at = parts_.forward_bytes.data() + parts_.forward_offsets[row];
  std::uint8_t const* const end = parts_.forward_bytes.data() + parts_.forward_offsets[row + 1];
  TermId term = 0;
  while (at != end) {
    term += get_varint(at);
    std::uint32_t const freq = get_varint(at);
    std::uint8_t const* const positions = at;
    for (std::uint32_t i = 0; i < freq; ++i) {
      while ((*at++ & 0x80) != 0) {
      }
    }
    f(term, freq, positions);
  }
}

}  // namespace hyrecall
