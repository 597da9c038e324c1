#include "engine/lexical_builder.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "engine/posting_layout.hpp"

namespace hyrecall {
namespace {

std::string_view term_at(std::vector<std::int64_t> const& offsets,
                         std::vector<std::uint8_t> const& bytes, TermId t) {
  return {reinterpret_cast<char const*>(bytes.data()) + offsets[t],
          static_cast<std::size_t>(offsets[t + 1] - offsets[t])};
}

constexpr std::size_t kTextsPerBatch = 4096;  // bounds what analysis holds beside input and index

}  // namespace

TermId LexicalBuilder::intern(std::string_view term) {
  std::size_t const mask = slots_.size() - 1;
  std::size_t at = hash_bytes(term) & mask;
  for (; slots_[at] != kNone32; at = (at + 1) & mask) {
    if (term_at(term_offsets_, term_bytes_, slots_[at]) == term) return slots_[at];
  }
  auto const id = static_cast<TermId>(n_terms());
  slots_[at] = id;
  term_bytes_.insert(term_bytes_.end(), term.begin(), term.end());
  term_offsets_.push_back(static_cast<std::int64_t>(term_bytes_.size()));
  if (n_terms() * 3 > slots_.size() * 2) grow_slots();
  return id;
}

void LexicalBuilder::grow_slots() {
  std::vector<TermId> grown(slots_.size() * 2, kNone32);
  std::size_t const mask = grown.size() - 1;
  for (TermId term = 0; term < n_terms(); ++term) {
    std::size_t at = hash_bytes(term_at(term_offsets_, term_bytes_, term)) & mask;
    while (grown[at] != kNone32) at = (at + 1) & mask;
    grown[at] = term;
  }
  slots_ = std::move(grown);
}

void LexicalBuilder::null_row() {
  doc_lengths_.push_back(kNoText);
  forward_offsets_.push_back(forward_bytes_.size());
}

void LexicalBuilder::end_row(std::uint32_t doc_length) {
  auto const before = [](Token const& a, Token const& b) { return a.position < b.position; };
  if (!std::is_sorted(tokens_.begin(), tokens_.end(), before))
    std::stable_sort(tokens_.begin(), tokens_.end(), before);
  std::uint32_t position = kBeforeFirst;
  for (Token const& token : tokens_)
    put_token(forward_bytes_, token.term, token.position, position);
  tokens_.clear();
  doc_lengths_.push_back(doc_length);
  forward_offsets_.push_back(forward_bytes_.size());
}

std::shared_ptr<LexicalColumn const> LexicalBuilder::finish() {
  LexicalColumn::Parts parts;
  parts.name = std::move(name_);
  parts.doc_lengths = std::move(doc_lengths_);
  parts.terms = {std::move(term_offsets_), std::move(term_bytes_)};
  parts.forward_offsets = std::move(forward_offsets_);
  parts.forward_bytes = std::move(forward_bytes_);
  lay_out_postings(parts, 1);
  return std::make_shared<LexicalColumn const>(std::move(parts));
}

std::shared_ptr<LexicalColumn const> build_lexical(std::string name,
                                                   std::span<Chunked<StringColumn> const> columns,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer,
                                                   std::span<Row const>) {
  LexicalBuilder builder(std::move(name));
  std::vector<std::string_view> texts;
  for (std::size_t begin = 0; begin < order.size(); begin += kTextsPerBatch) {
    std::size_t const n = std::min(kTextsPerBatch, order.size() - begin);
    std::vector<text::TokenBatch> batches(columns.size());
    std::vector<std::vector<TermId>> numbers(columns.size());
    std::vector<bool> has_text(n, false);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      texts.clear();
      for (std::size_t i = 0; i < n; ++i) {
        auto const [chunk, row] = columns[c].at(order[begin + i]);
        bool const valid = chunk.valid[row];
        if (valid) has_text[i] = true;
        texts.push_back(valid ? chunk.values[row] : std::string_view());
      }
      analyzer.analyze(texts, text::Role::kDocument, batches[c]);
      for (std::string const& term : batches[c].terms) numbers[c].push_back(builder.intern(term));
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (!has_text[i]) {
        builder.null_row();
        continue;
      }
      std::uint32_t base = 0;
      std::uint32_t length = 0;
      for (std::size_t c = 0; c < columns.size(); ++c) {
        text::TokenBatch const& batch = batches[c];
        std::uint32_t last = 0;
        for (std::uint64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t) {
          last = batch.positions[t];
          builder.token(numbers[c][batch.term_ids[t]], base + last);
        }
        length += batch.lengths[i];
        base += last + kColumnGap;
      }
      builder.end_row(length);
    }
  }
  return builder.finish();
}

std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row, std::span<Row const>) {
  LexicalBuilder builder(sources.front()->name());
  std::vector<std::vector<TermId>> numbers;  // per source, a term's number here
  for (auto const& from : sources) numbers.emplace_back(from->n_terms(), kNone32);
  for (std::size_t to = 0; to < source.size(); ++to) {
    LexicalColumn const& from = *sources[source[to]];
    Row const row = source_row[to];
    if (!from.has(row)) {
      builder.null_row();
      continue;
    }
    from.for_each_token(row, [&](TermId term, std::uint32_t position) {
      TermId& number = numbers[source[to]][term];
      if (number == kNone32) number = builder.intern(from.parts().terms[term]);
      builder.token(number, position);
    });
    builder.end_row(from.doc_length(row));
  }
  return builder.finish();
}

}  // namespace hyrecall
