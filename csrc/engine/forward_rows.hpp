// The forward view of consecutive documents: their tokens by document and term.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace hyrecall {

// Writes what get_varint reads, in at most five bytes; gives where the next one goes.
inline std::uint8_t* put_varint(std::uint8_t* to, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::uint8_t>(value | 0x80);
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

// Tokens of consecutive documents, as they come.
struct TokenRows {
  std::vector<TermId> terms;             // [n_tokens]
  std::vector<std::uint32_t> positions;  // [n_tokens] never falling within a document's term
  std::vector<std::uint32_t> ends;       // [n_rows] into terms
  std::vector<std::uint32_t> lengths;    // [n_rows] doc_length, or kNoText

  void clear() {
    terms.clear();
    positions.clear();
    ends.clear();
    lengths.clear();
  }
  void add_token(TermId term, std::uint32_t position) {
    terms.push_back(term);
    positions.push_back(position);
  }
  void end_row(std::uint32_t length) {
    ends.push_back(static_cast<std::uint32_t>(terms.size()));
    lengths.push_back(length);
  }
};

// Encodes documents as LexicalColumn::Parts::forward_bytes has them. Its buffers serve the next
// call, too.
class ForwardRows {
 public:
  struct DocFreq {
    TermId term;
    std::uint32_t n_docs;
  };

  void encode(TokenRows const& rows);

  std::span<std::uint8_t const> bytes() const { return {bytes_.data(), n_bytes_}; }
  std::span<std::uint64_t const> ends() const { return ends_; }      // [n_rows] into bytes
  std::span<DocFreq const> doc_freqs() const { return doc_freqs_; }  // by rising term

 private:
  // A token: its term, and its number among the tokens.
  struct Entry {
    TermId term;
    std::uint32_t token;
  };

  void sort_by_term(TokenRows const& rows);
  void sort_by_row(TokenRows const& rows);
  void write(std::span<Entry const> document, std::uint32_t const* positions);

  std::vector<Entry> entries_;
  std::vector<Entry> other_;           // where entries_ are sorted to
  std::vector<std::uint32_t> counts_;  // of a digit's values, or of a document's tokens
  std::vector<std::uint32_t> row_of_;  // [n_tokens]
  std::vector<std::uint8_t> bytes_;
  std::size_t n_bytes_ = 0;
  std::vector<std::uint64_t> ends_;
  std::vector<DocFreq> doc_freqs_;
};

}  // namespace hyrecall
