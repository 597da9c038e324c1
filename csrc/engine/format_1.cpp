#include "engine/format_1.hpp"

#include <algorithm>
#include <utility>

namespace hyrecall {

void convert_forward_1(LexicalColumn::Parts& parts) {
  std::size_t const n_rows = parts.doc_lengths.size();
  NarrowOffsets offsets;
  offsets.push_back(0);
  std::vector<std::uint8_t> bytes;
  std::vector<std::pair<std::uint32_t, TermId>> tokens;  // of a document: position, term
  for (std::size_t row = 0; row < n_rows; ++row) {
    std::uint8_t const* at = parts.forward_bytes.data() + parts.forward_offsets[row];
    std::uint8_t const* const end = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
    tokens.clear();
    for (TermId term = 0; at != end;) {
      term += get_varint(at);
      std::uint32_t const freq = get_varint(at);
      std::uint32_t position = 0;
      for (std::uint32_t i = 0; i < freq; ++i)
        tokens.emplace_back(position += get_varint(at), term);
    }
    std::sort(tokens.begin(), tokens.end());
    std::uint32_t previous = kBeforeFirst;
    std::size_t const begin = bytes.size();
    bytes.resize(begin + tokens.size() * kMostTokenBytes);
    std::uint8_t* to = bytes.data() + begin;
    for (auto const& [position, term] : tokens) to = put_token(to, term, position, previous);
    bytes.resize(static_cast<std::size_t>(to - bytes.data()));
    offsets.push_back(bytes.size());
  }
  parts.forward_offsets = std::move(offsets);
  parts.forward_bytes = std::move(bytes);
}

}  // namespace hyrecall
