// The inverted index against plain maps of the texts, and phrases against brute force.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "core/formulas.hpp"
#include "engine/lexical/bm25.hpp"
#include "engine/lexical/forward_rows.hpp"
#include "engine/lexical/leaf_postings.hpp"
#include "engine/lexical/matched_rows.hpp"
#include "engine/lexical/posting_layout.hpp"
#include "kernels/cpu/isa.hpp"
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
    PostingList const list = column.list_of(term);
    CHECK_EQ(list.size, rows.size());
    auto next = rows.begin();
    list.for_each(0, list.size, [&](Row row, std::uint32_t freq) {
      CHECK_EQ(row, next->first);
      CHECK_EQ(freq, next->second.size());
      ++next;
    });
    CHECK(next == rows.end());
    for (auto const& [row, places] : rows) {
      CHECK_EQ(list.freq_of(row), places.size());
      CHECK_EQ(column.term_freq(row, term), places.size());
      column.positions(row, term, positions);
      CHECK(positions == places);
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
    auto const column = merge_lexical(columns, source, source_row);
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

// Documents of one word each, at rows that many tiles share unevenly.
struct Sparse {
  std::vector<Row> rows;
  std::vector<std::uint32_t> freqs;
  std::vector<std::uint32_t> lengths;  // of every row
};

Sparse random_sparse(Rng& rng, bool is_long) {
  Sparse out;
  std::size_t const n_rows = 3 * kDocTileRows + 5;
  for (Row row = 0; row < n_rows; ++row) {
    bool const at_border = row % kDocTileRows < 2 || row % kDocTileRows > kDocTileRows - 3;
    std::uint32_t const freq = rng.below(50u) == 0 ? 1 + rng.below(40u) : 1 + rng.below(7u);
    std::uint32_t const length = freq + (is_long ? 200 + rng.below(17'000u) : rng.below(250u));
    out.lengths.push_back(length);
    if (row / kDocTileRows == 1 || (!at_border && rng.below(20u) != 0)) continue;  // one tile empty
    out.rows.push_back(row);
    out.freqs.push_back(freq);
  }
  return out;
}

std::shared_ptr<LexicalColumn const> sparse_column(Sparse const& sparse) {
  LexicalBuilder builder("text");
  TermId const word = builder.intern("word");
  TokenRows rows;
  for (Row row = 0, next = 0; row < sparse.lengths.size(); ++row) {
    if (next < sparse.rows.size() && sparse.rows[next] == row) {
      for (std::uint32_t i = 0; i < sparse.freqs[next]; ++i) rows.add_token(word, 3 * i);
      ++next;
    }
    rows.end_row(sparse.lengths[row]);
  }
  ForwardRows encoded;
  encoded.encode(rows);
  builder.append(rows, encoded);
  return builder.finish(2);
}

TEST(lexical_postings_say_what_they_were_given_in_either_width) {
  Rng rng(9);
  for (bool is_long : {false, true}) {
    Sparse const sparse = random_sparse(rng, is_long);
    auto const column = sparse_column(sparse);
    CHECK_EQ(column->parts().posting_width,
             is_long ? PostingFormat::kWide : PostingFormat::kCompact);
    CHECK(!column->parts().escapes.empty());
    PostingList const list = column->list_of(0);
    CHECK_EQ(list.size, sparse.rows.size());
    std::uint32_t i = 0;
    list.for_each(0, list.size, [&](Row row, std::uint32_t freq) {
      CHECK_EQ(row, sparse.rows[i]);
      CHECK_EQ(freq, sparse.freqs[i]);
      // What the bits say is exact, or they say that they do not know.
      PostingFormat const format = list.format;
      std::uint32_t const bits = list.bits(i);
      if (format.freq(bits) != format.escape()) {
        CHECK_EQ(format.freq(bits) + 1, freq);
        CHECK_EQ(format.length(bits), sparse.lengths[row]);
      }
      ++i;
    });
    for (Row row = 0; row < sparse.lengths.size(); ++row) {
      auto const at = std::lower_bound(sparse.rows.begin(), sparse.rows.end(), row);
      auto const place = static_cast<std::uint32_t>(at - sparse.rows.begin());
      CHECK_EQ(list.locate(row), place);
      bool const is_here = at != sparse.rows.end() && *at == row;
      CHECK_EQ(list.freq_of(row), is_here ? sparse.freqs[place] : 0);
    }
  }
}

TEST(lexical_layout_does_not_depend_on_threads) {
  Rng rng(10);
  Sparse sparse = random_sparse(rng, false);
  Sparse const other = random_sparse(rng, false);
  for (Row row : other.rows) {  // twelve tiles: several shares of some
    sparse.rows.push_back(row + static_cast<Row>(sparse.lengths.size()));
    sparse.freqs.push_back(3);
  }
  sparse.lengths.insert(sparse.lengths.end(), 9 * kDocTileRows, 7);
  auto const expected = sparse_column(sparse);
  for (int threads : {2, 3, 5}) {
    LexicalColumn::Parts parts = expected->parts();
    lay_out_postings(parts, threads);
    auto const same = [](auto const& a, auto const& b) {
      return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
    };
    CHECK(same(parts.posting_offsets, expected->parts().posting_offsets));
    CHECK(same(parts.postings, expected->parts().postings));
    CHECK(same(parts.run_offsets, expected->parts().run_offsets));
    CHECK(same(parts.runs, expected->parts().runs));
    CHECK(same(parts.escapes, expected->parts().escapes));
  }
}

TEST(lexical_queries_do_not_depend_on_threads) {
  Rng rng(23);
  std::vector<std::optional<TextQuery>> queries;
  for (int i = 0; i < 700; ++i) {
    queries.emplace_back();
    if (rng.below(10) == 0) continue;  // a missing one
    queries.back().emplace().text = random_text(rng, 8, 40);
  }
  std::shared_ptr<text::Analyzer> const analyzer = word_analyzer();
  std::vector<Refusal> refused;
  auto const alone = analyze_queries(queries, *analyzer, 0, 1, refused);
  auto const many = analyze_queries(queries, *analyzer, 0, 4, refused);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    CHECK_EQ(alone[i].has_value(), queries[i].has_value());
    CHECK_EQ(many[i].has_value(), queries[i].has_value());
    if (!queries[i]) continue;
    std::map<std::string, double> expected;
    std::istringstream words(queries[i]->text);
    for (std::string word; words >> word;) expected[word] += 1.0;
    for (LexicalQuery const* query : {&*alone[i], &*many[i]}) {
      CHECK_EQ(query->leaves.size(), expected.size());
      CHECK(std::equal(expected.begin(), expected.end(), query->leaves.begin(),
                       [](auto const& one, Leaf const& leaf) {
                         return leaf.terms.front() == one.first && leaf.multiplicity == one.second;
                       }));
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
    count += std::any_of(spans.begin(), spans.end(),
                         [&](auto const& s) { return s.second - s.first <= slop; });
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
    std::vector<std::span<std::uint32_t const>> const views(positions.begin(), positions.end());
    std::uint32_t const slop = rng.below(4u);
    std::uint32_t const expected = count_by_force(positions, offsets, slop);
    CHECK_EQ(count_phrase(views, offsets, slop), expected);
    n_found += expected > 0;
  }
  CHECK(n_found > 500);
}

// ---- Which rows a tree of words matches

constexpr Row kTreeRows = 3 * kTileRows;
constexpr Row kTreeTile = 2;
constexpr std::uint32_t kTreeLeaves = 12;

MatchNode random_match(Rng& rng, int levels) {
  if (levels == 0 || rng.below(3) == 0) return {MatchNode::Kind::kLeaf, rng.below(kTreeLeaves), {}};
  MatchNode out{rng.below(2) == 0 ? MatchNode::Kind::kAll : MatchNode::Kind::kAny, 0, {}};
  for (int n = 1 + rng.below(4); n > 0; --n) out.children.push_back(random_match(rng, levels - 1));
  for (int n = rng.below(3); n > 0; --n) out.excluded.push_back(random_match(rng, levels - 1));
  return out;
}

std::size_t n_leaf_places(MatchNode const& node) {
  std::size_t out = node.kind == MatchNode::Kind::kLeaf ? 1 : 0;
  for (MatchNode const& one : node.children) out += n_leaf_places(one);
  for (MatchNode const& one : node.excluded) out += n_leaf_places(one);
  return out;
}

TEST(a_tree_matches_the_rows_it_matches_one_by_one_and_reads_each_list_once) {
  Rng rng(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::vector<bool>> held(kTreeLeaves, std::vector<bool>(kTreeRows));
    for (auto& rows : held)
      for (Row row = 0; row < kTreeRows; ++row) rows[row] = rng.below(4) == 0;
    MatchNode const tree = random_match(rng, 4);
    std::size_t n_read = 0;
    RowBits found(kTreeTile, kTreeRows / kTileRows);
    add_matched(
        tree,
        [&](std::uint32_t leaf, RowBits& to) {
          ++n_read;
          for (Row row = 0; row < kTreeRows; ++row)
            if (held[leaf][row]) to.set(kTreeTile * kTileRows + row);
        },
        found);
    CHECK_EQ(n_read, n_leaf_places(tree));
    for (Row row = 0; row < kTreeRows; ++row) {
      bool const matches = tree.matches([&](std::uint32_t leaf) { return held[leaf][row]; });
      CHECK_EQ(found[kTreeTile + row / kTileRows].test(row % kTileRows), matches);
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
