// The inverted index against plain maps of the texts, and phrases against brute force.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "core/formulas.hpp"
#include "engine/forward_rows.hpp"
#include "engine/lexical_arm.hpp"
#include "engine/postings.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

// term -> row -> positions, straight from the texts.
using Inverted = std::map<std::string, std::map<Row, std::vector<std::uint32_t>>>;

Inverted invert(Documents const& documents) {
  Inverted out;
  for (Row row = 0; row < documents.size(); ++row) {
    if (!documents.texts[row]) continue;
    std::istringstream words(*documents.texts[row]);
    std::string word;
    for (std::uint32_t position = 0; words >> word; ++position) out[word][row].push_back(position);
  }
  return out;
}

void check_column(LexicalColumn const& column, Documents const& documents) {
  Inverted const expected = invert(documents);
  CHECK_EQ(column.n_rows(), documents.size());
  CHECK_EQ(column.n_terms(), expected.size());
  std::vector<std::uint32_t> positions;
  for (auto const& [word, rows] : expected) {
    TermId const term = column.find(word);
    CHECK(term != kNone32);
    CHECK_EQ(column.rows_of(term).size(), rows.size());
    std::size_t i = 0;
    for (auto const& [row, places] : rows) {
      CHECK_EQ(column.rows_of(term)[i], row);
      CHECK_EQ(column.freqs_of(term)[i], places.size());
      CHECK_EQ(column.term_freq(row, term), places.size());
      column.positions(row, term, positions);
      CHECK(positions == places);
      ++i;
    }
  }
  CHECK_EQ(column.find("absent"), kNone32);
  for (Row row = 0; row < documents.size(); ++row) {
    CHECK_EQ(column.has(row), documents.texts[row].has_value());
    if (!documents.texts[row]) continue;
    std::istringstream words(*documents.texts[row]);
    std::string word;
    std::uint32_t length = 0;
    while (words >> word) ++length;
    CHECK_EQ(column.doc_length(row), length);
  }
}

TEST(lexical_builder_keeps_every_posting_and_position) {
  Rng rng(6);
  for (int round = 0; round < 20; ++round) {
    Documents const documents = random_documents(rng, 1 + rng.below(std::size_t{400}), 5, 60);
    check_column(*lexical_of(documents), documents);
  }
}

TEST(lexical_merge_of_live_rows_equals_a_fresh_build) {
  Rng rng(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<Documents> parts;
    std::vector<std::shared_ptr<LexicalColumn const>> columns;
    for (int p = 0; p < 3; ++p) {
      parts.push_back(random_documents(rng, 1 + rng.below(std::size_t{150}), 1, 40));
      columns.push_back(lexical_of(parts.back()));
    }
    Documents merged;
    std::vector<std::uint32_t> source;
    std::vector<Row> source_row;
    for (std::uint32_t p = 0; p < parts.size(); ++p) {
      for (Row row = 0; row < parts[p].size(); ++row) {
        if (rng.below(4) == 0) continue;  // deleted
        source.push_back(p);
        source_row.push_back(row);
        merged.cells.push_back("one");
        merged.texts.push_back(parts[p].texts[row]);
        merged.seqs.push_back(static_cast<Seq>(merged.seqs.size()));
      }
    }
    auto const column = merge_lexical(columns, source, source_row, directory_of(merged).begins());
    check_column(*column, merged);
  }
}

TEST(lexical_prefix_gives_the_terms_in_byte_order) {
  Rng rng(8);
  Documents const documents = random_documents(rng, 300, 3, 200);
  auto const column = lexical_of(documents);
  Inverted const expected = invert(documents);
  for (std::string const prefix : {"", "w", "w1", "w19", "x", "w1999"}) {
    std::vector<std::string> wanted;
    for (auto const& [word, rows] : expected) {
      if (word.starts_with(prefix)) wanted.push_back(word);
    }
    std::vector<std::string> found;
    for (TermId term : column->with_prefix(prefix)) found.emplace_back(column->parts().terms[term]);
    CHECK(found == wanted);
  }
}

TEST(lexical_block_bounds_cover_every_impact_for_every_option) {
  Rng rng(9);
  Documents const documents = random_documents(rng, 6000, 3, 30);
  auto const column = lexical_of(documents);
  LexicalColumn::Parts const& parts = column->parts();
  CHECK(parts.block_begins.size() > 20);
  for (Bm25Variant variant :
       {Bm25Variant::kOkapi, Bm25Variant::kLucene, Bm25Variant::kFts5, Bm25Variant::kRobertson,
        Bm25Variant::kAtire, Bm25Variant::kPlus, Bm25Variant::kLong}) {
    for (auto [k1, b] : {std::pair(1.2, 0.75), std::pair(0.0, 1.0), std::pair(3.0, 0.0)}) {
      LexicalQuery query;
      query.leaves.push_back({.kind = Leaf::Kind::kTerm,
                              .terms = {"w0"},
                              .offsets = {},
                              .slop = 0,
                              .multiplicity = 1.0});
      Bm25Query const scorer({variant, k1, b, 0.7}, query, {6000, 6000 * 5, {700}});
      CHECK(scorer.is_positive());
      for (TermId term = 0; term < column->n_terms(); ++term) {
        std::uint64_t const first = parts.block_offsets[term];
        std::uint64_t const last = parts.block_offsets[term + 1];
        for (std::uint64_t block = first; block < last; ++block) {
          float const bound =
              scorer.bound(0, {parts.frontiers.data() + block * kFrontierPoints, kFrontierPoints});
          std::uint64_t const end =
              block + 1 < last ? parts.block_begins[block + 1] : parts.posting_offsets[term + 1];
          CHECK(end - parts.block_begins[block] <= kBlockSize);
          for (std::uint64_t p = parts.block_begins[block]; p < end; ++p) {
            float const norm = scorer.length_norm(column->doc_length(parts.posting_rows[p]));
            CHECK(scorer.impact(0, static_cast<float>(parts.posting_freqs[p]), norm) <= bound);
          }
        }
      }
    }
  }
}

TEST(lexical_query_is_positive_where_every_term_that_is_held_adds_something) {
  LexicalQuery query;
  for (char const* word : {"a", "b"}) {
    query.leaves.push_back({.kind = Leaf::Kind::kTerm,
                            .terms = {word},
                            .offsets = {},
                            .slop = 0,
                            .multiplicity = 1.0});
  }
  auto const is_positive = [&](Bm25Variant variant, std::int64_t common) {
    return Bm25Query({variant, 1.2, 0.75, 1.0}, query, {10, 50, {0, common}}).is_positive();
  };
  for (Bm25Variant variant : {Bm25Variant::kOkapi, Bm25Variant::kLucene, Bm25Variant::kFts5,
                              Bm25Variant::kPlus, Bm25Variant::kLong}) {
    for (std::int64_t common = 0; common <= 10; ++common) CHECK(is_positive(variant, common));
  }
  for (std::int64_t common = 0; common <= 10; ++common) {
    CHECK_EQ(is_positive(Bm25Variant::kRobertson, common), common < 5);
    CHECK_EQ(is_positive(Bm25Variant::kAtire, common), common < 10);
  }
}

TEST(lexical_blocks_never_cross_a_large_cell) {
  Rng rng(10);
  Documents const documents = random_documents(rng, 5000, 3, 10);  // three cells of some 1,667 rows
  auto const column = lexical_of(documents);
  CellDirectory const cells = directory_of(documents);
  LexicalColumn::Parts const& parts = column->parts();
  for (TermId term = 0; term < column->n_terms(); ++term) {
    for (std::uint64_t block = parts.block_offsets[term]; block < parts.block_offsets[term + 1];
         ++block) {
      bool const is_last = block + 1 == parts.block_offsets[term + 1];
      std::uint64_t const end =
          is_last ? parts.posting_offsets[term + 1] : parts.block_begins[block + 1];
      CHECK_EQ(cells.cell_of(parts.posting_rows[parts.block_begins[block]]),
               cells.cell_of(parts.posting_rows[end - 1]));
    }
  }
}

TEST(varints_come_back) {
  Rng rng(11);
  std::vector<std::uint32_t> values{0, 127, 128, 16383, 16384, kNone32};
  for (int i = 0; i < 1000; ++i)
    values.push_back(static_cast<std::uint32_t>(rng.below(1ull << (1 + rng.below(32)))));
  std::vector<std::uint8_t> bytes(5 * values.size());
  std::uint8_t* to = bytes.data();
  for (std::uint32_t value : values) to = put_varint(to, value);
  std::uint8_t const* at = bytes.data();
  for (std::uint32_t value : values) CHECK_EQ(get_varint(at), value);
  CHECK(at == to);
}

// Every choice of one position a term: displacements span at most slop, and the first term's place
// counts once.
std::uint32_t count_by_force(std::vector<std::vector<std::uint32_t>> const& positions,
                             std::vector<std::uint32_t> const& offsets, std::uint32_t slop) {
  std::uint32_t count = 0;
  for (std::uint32_t place : positions[0]) {
    std::vector<std::pair<std::int64_t, std::int64_t>> spans{{place, place}};  // offsets[0] is 0
    for (std::size_t t = 1; t < positions.size(); ++t) {
      std::vector<std::pair<std::int64_t, std::int64_t>> wider;
      for (auto const& [low, high] : spans) {
        for (std::uint32_t p : positions[t]) {
          std::int64_t const d = static_cast<std::int64_t>(p) - offsets[t];
          wider.emplace_back(std::min(low, d), std::max(high, d));
        }
      }
      spans = std::move(wider);
    }
    bool const fits = std::any_of(spans.begin(), spans.end(),
                                  [&](auto const& s) { return s.second - s.first <= slop; });
    count += fits ? 1 : 0;
  }
  return count;
}

TEST(count_phrase_equals_brute_force) {
  Rng rng(12);
  int n_found = 0;
  for (int round = 0; round < 5000; ++round) {
    std::size_t const n_terms = 1 + rng.below(std::size_t{4});
    std::vector<std::vector<std::uint32_t>> positions(n_terms);
    std::vector<std::uint32_t> offsets{0};
    for (std::size_t t = 0; t < n_terms; ++t) {
      if (t > 0) offsets.push_back(offsets.back() + 1 + rng.below(2u));
      std::set<std::uint32_t> places;
      for (std::size_t i = 0, n = 1 + rng.below(std::size_t{5}); i < n; ++i)
        places.insert(rng.below(14u));
      positions[t].assign(places.begin(), places.end());
    }
    std::uint32_t const slop = rng.below(4u);
    std::uint32_t const expected = count_by_force(positions, offsets, slop);
    CHECK_EQ(count_phrase(positions, offsets, slop), expected);
    n_found += expected > 0 ? 1 : 0;
  }
  CHECK(n_found > 500);
}

}  // namespace
}  // namespace hyrecall::testing
