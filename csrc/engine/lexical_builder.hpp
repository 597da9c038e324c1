// Documents, in the segment's row order, -> a LexicalColumn.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/columns.hpp"
#include "engine/lexical_column.hpp"
#include "text/analyzer.hpp"

namespace hyrecall {

// Between the columns of one text arm: far enough that no phrase reaches across.
inline constexpr std::uint32_t kColumnGap = 1'000'000;

class LexicalBuilder {
 public:
  explicit LexicalBuilder(std::string name) : name_(std::move(name)) {}

  // The number of the term in the column, given on first use.
  TermId intern(std::string_view term);

  // One document after the other: null_row(), or tokens and end_row().
  void null_row();
  void token(TermId term, std::uint32_t position) { tokens_.push_back({term, position}); }
  void end_row(std::uint32_t doc_length);

  std::shared_ptr<LexicalColumn const> finish();

 private:
  struct Token {
    TermId term;
    std::uint32_t position;
  };

  std::size_t n_terms() const { return term_offsets_.size() - 1; }
  void grow_slots();

  std::string name_;
  std::vector<Token> tokens_;  // of the document at hand
  std::vector<std::uint32_t> doc_lengths_;
  std::vector<std::int64_t> term_offsets_{0};
  std::vector<std::uint8_t> term_bytes_;
  std::vector<TermId> slots_ = std::vector<TermId>(64, kNone32);
  std::vector<std::uint64_t> forward_offsets_{0};
  std::vector<std::uint8_t> forward_bytes_;
};

// Analyses the texts of the rows `order` names. An arm may join several columns: positions leave a
// gap, lengths add. A document whose every column is null is null.
std::shared_ptr<LexicalColumn const> build_lexical(std::string name,
                                                   std::span<Chunked<StringColumn> const> columns,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer,
                                                   std::span<Row const> cell_begins);

// Documents of several columns in a new order, without analysing them again.
std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row,
    std::span<Row const> cell_begins);

}  // namespace hyrecall
