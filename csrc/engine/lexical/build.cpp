// Builds a lexical column from texts. Many threads analyse and encode; two steps of each batch run
// in the order of batches, so that terms get the same numbers as with one thread.
#include "engine/lexical/build.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "core/turnstile.hpp"
#include "engine/lexical/posting_layout.hpp"
#include "engine/segment/merge_order.hpp"

namespace hyrecall {
namespace {

using Columns = std::span<Chunked<StringColumn> const>;
using Weights = std::span<std::uint32_t const>;

// These bound the memory that a thread needs besides input and index.
constexpr std::size_t kRowsPerBatch = 1024;
constexpr std::size_t kBytesPerBatch = std::size_t{1} << 20;
constexpr std::size_t kReaderBytes = std::size_t{16} << 20;
constexpr std::size_t kRowsPerMergeBatch = 1024;

// The begins of the batches: each has few rows and little text, but at least one row.
std::vector<std::size_t> cut_batches(Columns columns, Weights weights,
                                     std::span<std::uint32_t const> order) {
  std::vector<std::size_t> begins{0};
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > begins.back() && (n_bytes >= kBytesPerBatch || i - begins.back() >= kRowsPerBatch)) {
      begins.push_back(i);
      n_bytes = 0;
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
      auto const [chunk, row] = columns[c].at(order[i]);
      n_bytes += weights[c] * chunk.values[row].size();
    }
  }
  if (begins.back() < order.size()) begins.push_back(order.size());
  return begins;
}

// One thread's tools, and its present batch.
class BatchBuilder {
 public:
  BatchBuilder(Columns columns, Weights weights, text::Analyzer const& analyzer)
      : columns_(columns), weights_(weights), analyzer_(analyzer), readers_(columns.size()) {}

  void analyze(std::span<std::uint32_t const> order) {
    n_rows_ = order.size();
    has_text_.assign(n_rows_, false);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      texts_.clear();
      for (std::size_t i = 0; i < n_rows_; ++i) {
        auto const [chunk, row] = columns_[c].at(order[i]);
        bool const valid = chunk.valid[row];
        if (valid) has_text_[i] = true;
        texts_.push_back(valid ? chunk.values[row] : std::string_view());
      }
      Numbered& one = readers_[c];
      if (one.reader == nullptr || one.reader->bytes() > kReaderBytes)
        one = {analyzer_.reader(text::Role::kDocument), {}};
      one.reader->read(texts_);
    }
  }

  // Gets the column's numbers for terms that are new to this thread.
  void number_terms(LexicalBuilder& builder) {
    for (Numbered& one : readers_) {
      std::vector<std::string> const& terms = one.reader->batch().terms;
      for (std::size_t i = one.numbers.size(); i < terms.size(); ++i)
        one.numbers.push_back(builder.intern(terms[i]));
    }
  }

  void encode() {
    rows_.clear();
    for (std::size_t i = 0; i < n_rows_; ++i) rows_.end_row(has_text_[i] ? add_row(i) : kNoText);
    encoded_.encode(rows_);
  }

  void append_to(LexicalBuilder& builder) const { builder.append(rows_, encoded_); }

 private:
  struct Numbered {
    std::unique_ptr<text::Reader> reader;
    std::vector<TermId> numbers;  // the column's number of each of the reader's terms
  };

  // Returns the document's length.
  std::uint32_t add_row(std::size_t i) {
    std::uint64_t base = 0;
    std::uint32_t length = 0;
    for (std::size_t c = 0; c < readers_.size(); ++c) {
      Numbered const& one = readers_[c];
      text::TokenBatch const& batch = one.reader->batch();
      std::uint64_t const begin = batch.offsets[i], end = batch.offsets[i + 1];
      std::uint64_t const last = begin == end ? 0 : batch.positions[end - 1];
      if (base + (weights_[c] - 1) * (last + kColumnGap) + last >= kBeforeFirst)
        throw Error(ErrorCode::kOption, "text",
                    "expected fewer than 2^32 positions in a document, each column counted as "
                    "often as its weight, with a gap of 1000000 between columns, got more");
      for (std::uint32_t copy = 0; copy < weights_[c]; ++copy) {
        for (std::uint64_t t = begin; t < end; ++t)
          rows_.add_token(one.numbers[batch.term_ids[t]],
                          static_cast<std::uint32_t>(base + batch.positions[t]));
        length += batch.lengths[i];
        base += last + kColumnGap;
      }
    }
    return length;
  }

  Columns columns_;
  Weights weights_;  // by column, at least 1
  text::Analyzer const& analyzer_;
  std::vector<Numbered> readers_;  // by column
  std::size_t n_rows_ = 0;
  std::vector<std::string_view> texts_;
  std::vector<bool> has_text_;
  TokenRows rows_;
  ForwardRows encoded_;
};

}  // namespace

void LexicalBuilder::append(TokenRows const& rows, ForwardRows const& encoded) {
  std::uint64_t const base = forward_bytes_.size();
  forward_bytes_.insert(forward_bytes_.end(), encoded.bytes().begin(), encoded.bytes().end());
  for (std::uint64_t const end : encoded.ends()) forward_offsets_.push_back(base + end);
  doc_lengths_.insert(doc_lengths_.end(), rows.lengths.begin(), rows.lengths.end());
}

std::shared_ptr<LexicalColumn const> LexicalBuilder::finish(int threads) {
  LexicalColumn::Parts parts;
  parts.name = std::move(name_);
  parts.doc_lengths = std::move(doc_lengths_);
  parts.terms = std::move(terms_).take();
  parts.forward_offsets = std::move(forward_offsets_);
  parts.forward_bytes = std::move(forward_bytes_);
  lay_out_postings(parts, threads);
  return std::make_shared<LexicalColumn const>(std::move(parts));
}

std::shared_ptr<LexicalColumn const> build_lexical(std::string name, Columns columns,
                                                   Weights weights,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer, int threads,
                                                   Progress const& progress) {
  require(weights.size() == columns.size(), "a weight for each column");
  for (std::uint32_t const weight : weights) require(weight > 0, "weights of at least 1");
  LexicalBuilder builder(std::move(name));
  {
    std::vector<std::size_t> const begins = cut_batches(columns, weights, order);
    int const workers =
        analyzer.calls_back()
            ? 1
            : static_cast<int>(std::clamp<std::size_t>(
                  begins.size() - 1, 1, static_cast<std::size_t>(std::max(threads, 1))));
    std::vector<BatchBuilder> at_work;
    for (int w = 0; w < workers; ++w) at_work.emplace_back(columns, weights, analyzer);
    Turnstile numbering, appending;
    parallel_for(begins.size() - 1, workers, [&](int worker, std::size_t batch) {
      BatchBuilder& mine = at_work[static_cast<std::size_t>(worker)];
      std::size_t const begin = begins[batch], end = begins[batch + 1];
      try {
        mine.analyze(order.subspan(begin, end - begin));
        if (!numbering.pass(batch, [&] { mine.number_terms(builder); })) return;
        mine.encode();
        if (!appending.pass(batch, [&] { mine.append_to(builder); })) return;
        if (worker == 0 && progress && end < order.size()) progress(end);
      } catch (...) {
        numbering.fail(batch);
        appending.fail(batch);
        throw;
      }
    });
  }
  return builder.finish(threads);
}

std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row) {
  check_sources<LexicalColumn>(sources, source, source_row);
  LexicalBuilder builder(sources.front()->name());
  std::vector<std::vector<TermId>> numbers;  // per source, each term's number in this column
  for (auto const& from : sources) numbers.emplace_back(from->n_terms(), kNone32);
  TokenRows rows;
  ForwardRows encoded;
  for (std::size_t to = 0; to < source.size(); ++to) {
    if (to % kRowsPerMergeBatch == 0) poll_interrupt();
    LexicalColumn const& from = *sources[source[to]];
    Row const row = source_row[to];
    if (from.has(row)) {
      from.for_each_token(row, [&](TermId term, std::uint32_t position) {
        TermId& number = numbers[source[to]][term];
        if (number == kNone32) number = builder.intern(from.parts().terms[term]);
        rows.add_token(number, position);
      });
    }
    rows.end_row(from.doc_length(row));
    if (rows.ends.size() < kRowsPerMergeBatch && to + 1 < source.size()) continue;
    encoded.encode(rows);
    builder.append(rows, encoded);
    rows.clear();
  }
  return builder.finish(1);
}

}  // namespace hyrecall
