// Small random columns and segments for the engine's tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/lexical/build.hpp"
#include "engine/segment/segment.hpp"
#include "native/check.hpp"
#include "text/analyzer.hpp"

namespace hyrecall::testing {

inline Strings strings_of(std::vector<std::string> const& values) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint8_t> bytes;
  for (std::string const& value : values) {
    bytes.insert(bytes.end(), value.begin(), value.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  return {std::move(offsets), std::move(bytes)};
}

inline StringColumn column_of(std::vector<std::string> const& values) {
  return {strings_of(values), {}};
}

inline StringColumn column_of(std::vector<std::optional<std::string>> const& values) {
  std::vector<std::string> filled;
  std::vector<std::uint8_t> bits((values.size() + 7) / 8, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    filled.push_back(values[i].value_or(""));
    if (values[i]) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1u << (i % 8));
  }
  return {strings_of(filled), {std::move(bits), 0}};
}

inline std::string encoded(std::string const& cell) {
  std::vector<CellPart> const parts{column_of(std::vector<std::string>{cell})};
  return encode_cell(parts, 0);
}

inline IntColumn ints_of(std::vector<std::int64_t> values) {
  return {std::move(values), {}};
}

// "w0 w3 w1 ...": words of a vocabulary, few of them often.
inline std::string random_text(Rng& rng, std::size_t max_words, int vocabulary) {
  std::string text;
  for (std::size_t i = 0, n = rng.below(max_words + 1); i < n; ++i) {
    auto const number = static_cast<int>(rng.unit() * rng.unit() * vocabulary);
    text += (text.empty() ? "w" : " w") + std::to_string(number);
  }
  return text;
}

inline std::shared_ptr<text::Analyzer> word_analyzer() {
  return text::make_analyzer(
      {.preset = text::Preset::kWord, .stopwords = {}, .token_function = {}});
}

// Documents already in a segment's order: sorted by cell.
struct Documents {
  std::vector<std::string> cells;
  std::vector<std::optional<std::string>> texts;
  std::vector<Seq> seqs;

  std::size_t size() const { return cells.size(); }
};

inline Documents random_documents(Rng& rng, std::size_t n_rows, int n_cells, int vocabulary) {
  Documents out;
  for (std::size_t i = 0; i < n_rows; ++i) {
    out.cells.push_back(
        "cell" + std::to_string(1000 + static_cast<int>(i) * n_cells / static_cast<int>(n_rows)));
    out.texts.push_back(rng.below(10) == 0 ? std::nullopt
                                           : std::optional(random_text(rng, 12, vocabulary)));
    out.seqs.push_back(static_cast<Seq>(i));
  }
  return out;
}

inline CellDirectory directory_of(Documents const& documents) {
  std::vector<CellPart> const parts{column_of(documents.cells)};
  return CellDirectory(parts, documents.size());
}

inline std::shared_ptr<LexicalColumn const> lexical_of(Documents const& documents) {
  std::vector<Chunked<StringColumn>> columns(1);
  columns[0].append(column_of(documents.texts));
  std::vector<std::uint32_t> order(documents.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  return build_lexical("text", columns, std::vector<std::uint32_t>{1}, order, *word_analyzer(),
                       /*threads=*/2);
}

inline std::shared_ptr<Segment const> segment_of(Documents const& documents) {
  Segment::Parts parts;
  parts.seqs = documents.seqs;
  parts.cells = directory_of(documents);
  std::vector<std::int64_t> keys(documents.seqs.begin(), documents.seqs.end());
  parts.keys = KeyTable(ints_of(std::move(keys)), parts.cells);
  parts.lexical.push_back(lexical_of(documents));
  return std::make_shared<Segment>(std::move(parts));
}

}  // namespace hyrecall::testing
