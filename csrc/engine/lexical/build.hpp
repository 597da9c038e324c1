// Builds a LexicalColumn from documents in the segment's row order.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lexical/column.hpp"
#include "engine/lexical/forward_rows.hpp"
#include "engine/segment/columns.hpp"
#include "text/analyzer.hpp"
#include "text/string_table.hpp"

namespace hyrecall {

// Gap of positions between the columns of one text arm: too wide for any phrase.
inline constexpr std::uint32_t kColumnGap = 1'000'000;

// One thread may intern while another appends.
class LexicalBuilder {
 public:
  explicit LexicalBuilder(std::string name) : name_(std::move(name)) {
    forward_offsets_.push_back(0);
  }

  // Returns the term's number in the column, which it gets on first use.
  TermId intern(std::string_view term) { return terms_.add(term); }

  // Appends the next documents, given as tokens and encoded.
  void append(TokenRows const& rows, ForwardRows const& encoded);

  std::shared_ptr<LexicalColumn const> finish(int threads);

 private:
  std::string name_;
  text::StringTable terms_;
  std::vector<std::uint32_t> doc_lengths_;
  NarrowOffsets forward_offsets_;
  std::vector<std::uint8_t> forward_bytes_;
};

// Called on the caller's thread with the number of finished rows; an exception ends the build.
using Progress = std::function<void(std::size_t n_rows)>;

// Analyses the texts of the rows in `order`. An arm may join several columns: positions have a gap
// between columns, lengths add up. A column of weight w is joined w times (Robertson, Zaragoza,
// Taylor, CIKM 2004): frequencies, lengths, deletes and merges then need no weights. A document is
// null if all its columns are null. The result does not depend on the threads. An analyzer that
// calls Python runs only on the caller's thread.
std::shared_ptr<LexicalColumn const> build_lexical(std::string name,
                                                   std::span<Chunked<StringColumn> const> columns,
                                                   std::span<std::uint32_t const> weights,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer, int threads,
                                                   Progress const& progress = {});

// Copies documents of several columns into a new order, without analysing them again.
std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row);

}  // namespace hyrecall
