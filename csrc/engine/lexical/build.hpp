// Documents, in the segment's row order, -> a LexicalColumn.
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

// Between the columns of one text arm: far enough that no phrase reaches across.
inline constexpr std::uint32_t kColumnGap = 1'000'000;

// One thread may intern while another appends.
class LexicalBuilder {
 public:
  explicit LexicalBuilder(std::string name) : name_(std::move(name)) {
    forward_offsets_.push_back(0);
  }

  // The number of the term in the column, given on first use.
  TermId intern(std::string_view term) { return terms_.add(term); }

  // The next documents, and the same encoded.
  void append(TokenRows const& rows, ForwardRows const& encoded);

  std::shared_ptr<LexicalColumn const> finish(int threads);

 private:
  std::string name_;
  text::StringTable terms_;
  std::vector<std::uint32_t> doc_lengths_;
  NarrowOffsets forward_offsets_;
  std::vector<std::uint8_t> forward_bytes_;
};

// Called on the caller's thread with the number of rows done so far; what it throws ends the build.
using Progress = std::function<void(std::size_t n_rows)>;

// Analyses the texts of the rows `order` names. An arm may join several columns: positions leave a
// gap, lengths add. A document whose every column is null is null. The result does not depend on
// the threads; an analyzer that calls back is asked by the caller's thread alone.
std::shared_ptr<LexicalColumn const> build_lexical(std::string name,
                                                   std::span<Chunked<StringColumn> const> columns,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer, int threads,
                                                   Progress const& progress = {});

// Documents of several columns in a new order, without analysing them again.
std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row);

}  // namespace hyrecall
