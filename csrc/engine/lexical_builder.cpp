#include "engine/lexical_builder.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/hash.hpp"

namespace hyrecall {
namespace {

std::string_view term_at(std::vector<std::int64_t> const& offsets,
                         std::vector<std::uint8_t> const& bytes, TermId t) {
  return {reinterpret_cast<char const*>(bytes.data()) + offsets[t],
          static_cast<std::size_t>(offsets[t + 1] - offsets[t])};
}

// The Pareto frontier of (term_freq up, doc_length down) in at most kFrontierPoints points: past
// that, neighbours join into a point that dominates both, which keeps the bound valid.
void append_frontier(std::vector<FrontierPoint>& out, std::vector<FrontierPoint>& points) {
  std::sort(points.begin(), points.end(), [](FrontierPoint a, FrontierPoint b) {
    return a.doc_length != b.doc_length ? a.doc_length < b.doc_length : a.term_freq > b.term_freq;
  });
  std::vector<FrontierPoint> kept;
  for (FrontierPoint const& p : points) {
    if (kept.empty() || p.term_freq > kept.back().term_freq) kept.push_back(p);
  }
  while (kept.size() > kFrontierPoints) {
    std::size_t best = 0;  // join the pair that gives away the least term frequency
    for (std::size_t i = 0; i + 1 < kept.size(); ++i) {
      if (kept[i + 1].term_freq - kept[i].term_freq <
          kept[best + 1].term_freq - kept[best].term_freq)
        best = i;
    }
    kept[best].term_freq = kept[best + 1].term_freq;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  for (std::size_t i = 0; i < kFrontierPoints; ++i)
    out.push_back(kept[std::min(i, kept.size() - 1)]);
}

constexpr std::size_t kTextsPerBatch = 4096;  // bounds what analysis holds beside input and index

}  // namespace

TermId LexicalBuilder::intern(std::string_view term) {
  std::size_t const mask = slots_.size() - 1;
  std::size_t at = hash_bytes(term) & mask;
  for (; slots_[at] != kNone32; at = (at + 1) & mask) {
    if (term_at(term_offsets_, term_bytes_, slots_[at]) == term) return slots_[at];
  }
  auto const id = static_cast<TermId>(doc_freqs_.size());
  slots_[at] = id;
  term_bytes_.insert(term_bytes_.end(), term.begin(), term.end());
  term_offsets_.push_back(static_cast<std::int64_t>(term_bytes_.size()));
  doc_freqs_.push_back(0);
  if (doc_freqs_.size() * 3 > slots_.size() * 2) grow_slots();
  return id;
}

void LexicalBuilder::grow_slots() {
  std::vector<TermId> grown(slots_.size() * 2, kNone32);
  std::size_t const mask = grown.size() - 1;
  for (TermId term = 0; term < doc_freqs_.size(); ++term) {
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
  std::sort(tokens_.begin(), tokens_.end());
  TermId previous = 0;
  for (std::size_t i = 0; i < tokens_.size();) {
    std::size_t end = i;
    while (end < tokens_.size() && tokens_[end].term == tokens_[i].term) ++end;
    TermId const term = tokens_[i].term;
    put_varint(forward_bytes_, term - previous);
    put_varint(forward_bytes_, static_cast<std::uint32_t>(end - i));
    std::uint32_t position = 0;
    for (; i < end; ++i) {
      put_varint(forward_bytes_, tokens_[i].position - position);
      position = tokens_[i].position;
    }
    doc_freqs_[term] += 1;
    previous = term;
  }
  tokens_.clear();
  doc_lengths_.push_back(doc_length);
  forward_offsets_.push_back(forward_bytes_.size());
}

std::shared_ptr<LexicalColumn const> LexicalBuilder::finish(std::span<Row const> cell_begins) {
  LexicalColumn::Parts parts;
  parts.name = std::move(name_);
  std::vector<std::uint64_t> offsets(doc_freqs_.size() + 1, 0);
  std::partial_sum(doc_freqs_.begin(), doc_freqs_.end(), offsets.begin() + 1);
  std::vector<Row> rows(offsets.back());
  std::vector<std::uint32_t> freqs(offsets.back());
  std::vector<std::uint64_t> next(offsets.begin(), offsets.end() - 1);
  std::size_t const n_rows = doc_lengths_.size();
  parts.doc_lengths = std::move(doc_lengths_);
  parts.terms = {std::move(term_offsets_), std::move(term_bytes_)};
  parts.forward_offsets = std::move(forward_offsets_);
  parts.forward_bytes = std::move(forward_bytes_);
  // Rows come in order, so a scatter leaves every list sorted.
  std::uint8_t const* at = parts.forward_bytes.data();
  for (Row row = 0; row < n_rows; ++row) {
    std::uint8_t const* const end = parts.forward_bytes.data() + parts.forward_offsets[row + 1];
    for (TermId term = 0; at != end;) {
      term += get_varint(at);
      std::uint32_t const freq = get_varint(at);
      for (std::uint32_t i = 0; i < freq; ++i) get_varint(at);
      std::uint64_t const to = next[term]++;
      rows[to] = row;
      freqs[to] = freq;
    }
  }
  parts.posting_offsets = std::move(offsets);
  parts.posting_rows = std::move(rows);
  parts.posting_freqs = std::move(freqs);
  add_blocks(parts, cell_begins);
  return std::make_shared<LexicalColumn const>(std::move(parts));
}

void LexicalBuilder::add_blocks(LexicalColumn::Parts& parts,
                                std::span<Row const> cell_begins) const {
  std::vector<Row> cuts;  // where a large cell begins or ends
  for (std::size_t c = 0; c + 1 < cell_begins.size(); ++c) {
    if (cell_begins[c + 1] - cell_begins[c] < kOwnBlockRows) continue;
    if (cuts.empty() || cuts.back() != cell_begins[c]) cuts.push_back(cell_begins[c]);
    cuts.push_back(cell_begins[c + 1]);
  }
  std::vector<std::uint64_t> block_offsets{0};
  std::vector<std::uint64_t> block_begins;
  std::vector<FrontierPoint> frontiers;
  std::vector<FrontierPoint> points;
  for (std::size_t term = 0; term < doc_freqs_.size(); ++term) {
    std::uint64_t const first = parts.posting_offsets[term];
    std::uint64_t const last = parts.posting_offsets[term + 1];
    if (last - first > kBlockSize) {
      auto cut = cuts.begin();
      for (std::uint64_t p = first; p < last;) {
        while (cut != cuts.end() && *cut <= parts.posting_rows[p]) ++cut;
        block_begins.push_back(p);
        points.clear();
        for (; p < last && points.size() < kBlockSize &&
               (cut == cuts.end() || parts.posting_rows[p] < *cut);
             ++p) {
          points.push_back({parts.posting_freqs[p], parts.doc_lengths[parts.posting_rows[p]]});
        }
        append_frontier(frontiers, points);
      }
    }
    block_offsets.push_back(block_begins.size());
  }
  parts.block_offsets = std::move(block_offsets);
  parts.block_begins = std::move(block_begins);
  parts.frontiers = std::move(frontiers);
}

std::shared_ptr<LexicalColumn const> build_lexical(std::string name,
                                                   std::span<Chunked<StringColumn> const> columns,
                                                   std::span<std::uint32_t const> order,
                                                   text::Analyzer const& analyzer,
                                                   std::span<Row const> cell_begins) {
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
  return builder.finish(cell_begins);
}

std::shared_ptr<LexicalColumn const> merge_lexical(
    std::span<std::shared_ptr<LexicalColumn const> const> sources,
    std::span<std::uint32_t const> source, std::span<Row const> source_row,
    std::span<Row const> cell_begins) {
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
    from.for_each_term(row, [&](TermId term, std::uint32_t freq, std::uint8_t const* at) {
      TermId& number = numbers[source[to]][term];
      if (number == kNone32) number = builder.intern(from.parts().terms[term]);
      std::uint32_t position = 0;
      for (std::uint32_t i = 0; i < freq; ++i) builder.token(number, position += get_varint(at));
    });
    builder.end_row(from.doc_length(row));
  }
  return builder.finish(cell_begins);
}

}  // namespace hyrecall
