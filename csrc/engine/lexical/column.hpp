// One lexical arm of a segment: vocabulary, postings, and the forward view (document -> tokens).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/narrow_offsets.hpp"
#include "core/string_slots.hpp"
#include "core/types.hpp"
#include "engine/lexical/frequent_terms.hpp"
#include "engine/lexical/posting_list.hpp"

namespace hyrecall {

class LexicalColumn {
 public:
  // The parts that a file holds; everything else is computed from them.
  struct Parts {
    std::string name;
    Buffer<std::uint32_t> doc_lengths;      // [n_rows], kNoText = null
    Strings terms;                          // [n_terms] by order of first use
    Buffer<std::uint64_t> posting_offsets;  // [n_terms + 1]
    std::uint32_t posting_width = PostingFormat::kCompact;
    Buffer<std::uint8_t> postings;         // [n_postings * posting_width] rising within a term
    Buffer<std::uint32_t> run_offsets;     // [n_terms + 1]
    Buffer<PostingRun> runs;               // rising tiles within a term
    Buffer<std::uint32_t> escape_offsets;  // [n_terms + 1]
    Buffer<PostingEscape> escapes;         // rising rows within a term
    // Each document's tokens by position, see put_token(); for deletes, completion, phrases and
    // merges.
    NarrowOffsets forward_offsets;  // [n_rows + 1]
    Buffer<std::uint8_t> forward_bytes;

    // Copies all data that point to other data: terms, offsets, runs and escapes. Data that stay in
    // a mapped file may turn to zeros at any moment (core/mapped_file.hpp); no read then leaves the
    // file.
    void own_directories();
  };

  explicit LexicalColumn(Parts parts);  // already checked
  // From files that have not been read yet. Until check(), only lengths and sizes are known, and
  // functions that read more throw; the segment checks the lengths.
  LexicalColumn(Parts parts, Buffer<std::uint64_t> forward_offsets, bool is_mapped);
  ~LexicalColumn() { delete sorted_.load(std::memory_order_acquire); }
  LexicalColumn(LexicalColumn const&) = delete;
  LexicalColumn& operator=(LexicalColumn const&) = delete;

  // Checks the parts of files, once. One thread at a time calls it; others may read sizes
  // meanwhile.
  void check(int threads);
  bool is_checked() const { return is_checked_.load(std::memory_order_acquire); }
  // From now on a page fault loads only one page of postings, and sequential reads are announced to
  // the system (PostingList::read_ahead). Other threads may read meanwhile.
  void read_apart();
  Parts const& parts() const { return *parts_.load(std::memory_order_acquire); }
  std::string const& name() const { return parts().name; }
  std::size_t n_rows() const { return parts().doc_lengths.size(); }
  std::size_t n_terms() const { return parts().terms.size(); }
  bool has(Row row) const { return parts().doc_lengths[row] != kNoText; }
  std::uint32_t doc_length(Row row) const { return parts().doc_lengths[row]; }

  TermId find(std::string_view term) const {  // kNone32 if the column has no such term
    require_checked();
    return slots_.find(parts().terms, term);
  }
  // Calls use(i, find(term(i))) for i < n.
  template <typename F, typename G>
  void find_each(std::size_t n, F const& term, G const& use) const {
    require_checked();
    slots_.find_each(parts().terms, n, term, use);
  }
  std::span<TermId const> with_prefix(std::string_view prefix) const;  // in UTF-8 byte order
  PostingList list_of(TermId term) const;
  void prefetch_list(TermId term) const {  // the memory that list_of() reads
    __builtin_prefetch(&parts().posting_offsets[term]);
    __builtin_prefetch(&parts().run_offsets[term]);
    __builtin_prefetch(&parts().escape_offsets[term]);
  }
  std::size_t n_postings() const { return parts().posting_offsets[n_terms()]; }
  // How often each row holds a term; null if the term is too rare.
  FrequencyBits const* frequencies_of(TermId term) const {
    std::size_t const n = parts().posting_offsets[term + 1] - parts().posting_offsets[term];
    return FrequentTerms::pays(n, n_rows()) ? &frequent_.of(term, list_of(term), n_rows())
                                            : nullptr;
  }
  // The shortest length of a document with a text; 0 if there is none.
  std::uint32_t min_length() const { return min_length_; }
  std::uint32_t max_length() const { return max_length_; }
  // Postings that scans have left out so far (SkippedLeaves): for tests.
  std::uint64_t n_left_out() const { return n_left_out_.load(std::memory_order_relaxed); }
  void count_left_out(std::uint64_t n) const {
    n_left_out_.fetch_add(n, std::memory_order_relaxed);
  }

  // Calls f(term, position) for the document's tokens, positions never falling.
  template <typename F>
  void for_each_token(Row row, F&& f) const;
  std::vector<TermId> distinct_terms(Row row) const;  // rising
  std::uint32_t term_freq(Row row, TermId term) const;
  void positions(Row row, TermId term, std::vector<std::uint32_t>& out) const;
  // The positions at which a document holds any of the terms (ascending), each once.
  void places(Row row, std::span<TermId const> terms, std::vector<std::uint32_t>& out) const;

  std::size_t bytes() const;

 private:
  std::vector<TermId> const& terms_in_order() const;

  void require_checked() const { require(is_checked(), "a lexical column that was checked"); }
  void find_lengths();

  Parts given_;
  std::unique_ptr<Parts const> checked_;  // set if it differs from the given parts
  std::atomic<Parts const*> parts_{&given_};
  std::atomic<bool> is_checked_{true};
  Buffer<std::uint64_t> late_offsets_;  // of the forward view, until it is checked
  bool is_mapped_ = false;
  std::atomic<bool> is_apart_{false};
  std::uint32_t min_length_ = 0;
  std::uint32_t max_length_ = 0;
  StringSlots slots_;
  // Terms sorted by their bytes; the first prefix query makes them. Owned; a plain pointer and no
  // lock, because a fork may happen while a lock is held.
  mutable std::atomic<std::vector<TermId> const*> sorted_{nullptr};
  FrequentTerms frequent_;
  // On a cache line of its own: whoever counts disturbs no reader of the rest.
  alignas(64) mutable std::atomic<std::uint64_t> n_left_out_{0};
};

// Whether row[i] of columns[source[i]] has a text: bytes of 0 and 1.
std::vector<std::uint8_t> rows_with_text(
    std::span<std::shared_ptr<LexicalColumn const> const> columns,
    std::span<std::uint32_t const> source, std::span<Row const> row);

// ---- LEB128, 7 bits a byte, low bits first
// ----------------------------------------------------------------------

// Writes at most five bytes; returns the end.
inline std::uint8_t* put_varint(std::uint8_t* to, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::uint8_t>(value | 0x80);
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

inline std::uint32_t get_varint(std::uint8_t const*& at) {
  std::uint32_t value = *at & 0x7f;
  for (int shift = 7; (*at++ & 0x80) != 0; shift += 7)
    value |= static_cast<std::uint32_t>(*at & 0x7f) << shift;
  return value;
}

// ---- a document's tokens: term + 1 of each; where a token does not stand just behind the one
// before, 0 and the distance come first
// --------------------------------------------------------------------------------------------

inline constexpr std::uint32_t kBeforeFirst = kNone32;  // the position before a document's first

inline constexpr std::size_t kMostTokenBytes = 11;  // 0, a distance, a term

// Returns the end of what it wrote.
inline std::uint8_t* put_token(std::uint8_t* to, TermId term, std::uint32_t position,
                               std::uint32_t& previous) {
  if (position - previous != 1) {
    to = put_varint(to, 0);
    to = put_varint(to, position - previous);
  }
  to = put_varint(to, term + 1);
  previous = position;
  return to;
}

template <typename F>
void for_each_forward_token(std::uint8_t const* at, std::uint8_t const* end, F&& f) {
  std::uint32_t position = kBeforeFirst;
  while (at < end) {
    std::uint32_t value = get_varint(at);
    std::uint32_t distance = 1;
    if (value == 0) {
      distance = get_varint(at);
      value = get_varint(at);
      if (value == 0) return;  // the zeros of a lost page
    }
    f(value - 1, position += distance);
  }
}

template <typename F>
void LexicalColumn::for_each_token(Row row, F&& f) const {
  require_checked();
  Parts const& p = parts();
  std::uint8_t const* const bytes = p.forward_bytes.data();
  for_each_forward_token(bytes + p.forward_offsets[row], bytes + p.forward_offsets[row + 1], f);
}

}  // namespace hyrecall
