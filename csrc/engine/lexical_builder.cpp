#include "engine/lexical_builder.hpp"

#include "core/interrupt.hpp"
#include "engine/merge_order.hpp"
#include "engine/posting_layout.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kRowsPerMergeBatch = 1024;

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

std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row) {
  check_sources<LexicalColumn>(sources, source, source_row);
  LexicalBuilder builder(sources.front()->name());
  std::vector<std::vector<TermId>> numbers;  // per source, a term's number here
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
