#include "engine/lexical/format_1.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "engine/lexical/check.hpp"

namespace hyrecall {

void convert_forward_1(LexicalColumn::Parts& parts) {
  std::size_t const n_rows = parts.doc_lengths.size();
  std::size_t const n_terms = parts.terms.size();
  NarrowOffsets offsets;
  offsets.push_back(0);
  std::vector<std::uint8_t> bytes;
  std::vector<std::pair<std::uint32_t, TermId>> tokens;  // of a document: position, term
  for (std::size_t row = 0; row < n_rows; ++row) {
    std::uint8_t const* at = parts.forward_bytes.data() + parts.forward_offsets[row];
    std::uint8_t const* const end = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
    tokens.clear();
    std::uint64_t term = 0;
    while (at != end) {
      std::uint32_t step = 0;
      std::uint32_t freq = 0;
      bool whole = read_varint(at, end, step) && read_varint(at, end, freq);
      term += step;
      std::uint64_t position = 0;
      for (std::uint32_t i = 0; whole && i < freq; ++i) {
        whole = read_varint(at, end, step);
        position += step;
        tokens.emplace_back(static_cast<std::uint32_t>(position), static_cast<TermId>(term));
        whole = whole && position < kBeforeFirst;
      }
      if (!whole || term >= n_terms) {
        throw Error(
            ErrorCode::kCorrupt, parts.name,
            "expected whole tokens of known terms, got others in row " + std::to_string(row));
      }
    }
    std::sort(tokens.begin(), tokens.end());
    std::uint32_t previous = kBeforeFirst;
    std::size_t const begin = bytes.size();
    bytes.resize(begin + tokens.size() * kMostTokenBytes);
    std::uint8_t* to = bytes.data() + begin;
    for (auto const& [position, of] : tokens) to = put_token(to, of, position, previous);
    bytes.resize(static_cast<std::size_t>(to - bytes.data()));
    offsets.push_back(bytes.size());
  }
  parts.forward_offsets = std::move(offsets);
  parts.forward_bytes = std::move(bytes);
}

}  // namespace hyrecall
