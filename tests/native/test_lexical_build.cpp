// Documents to columns on many threads: the encoder against a sort, steps in order, errors.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "core/parallel.hpp"
#include "core/turnstile.hpp"
#include "engine/lexical/build.hpp"
#include "engine/lexical/forward_rows.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

using Tokens = std::vector<std::pair<std::uint32_t, TermId>>;  // position, term

Tokens decode(std::span<std::uint8_t const> bytes) {
  Tokens out;
  for_each_forward_token(
      bytes.data(), bytes.data() + bytes.size(),
      [&](TermId term, std::uint32_t position) { out.emplace_back(position, term); });
  return out;
}

TEST(forward_rows_hold_every_token_by_document_and_position) {
  Rng rng(21);
  ForwardRows encoded;  // one for all: nothing of a batch may stay
  for (std::uint32_t const n_terms : {1u, 2u, 300u, 3'000u, 9'000'000u, 4'000'000'000u}) {
    TokenRows rows;
    std::vector<Tokens> expected;
    for (int row = 0; row < 200; ++row) {
      Tokens& document = expected.emplace_back();
      std::uint32_t position = 0;
      for (std::size_t left = rng.below(90); left > 0; --left) {
        auto const term = static_cast<TermId>(rng.below(std::size_t{n_terms}));
        position += static_cast<std::uint32_t>(rng.below(rng.below(5) == 0 ? 70'000 : 3));
        rows.add_token(term, position);
        document.emplace_back(position, term);
        if (rng.below(40) == 0) position = 0;  // analyzers may go back
      }
      std::stable_sort(document.begin(), document.end(),
                       [](auto const& a, auto const& b) { return a.first < b.first; });
      rows.end_row(row % 7 == 0 && document.empty() ? kNoText : 1);
    }
    encoded.encode(rows);
    CHECK_EQ(encoded.ends().size(), expected.size());
    CHECK_EQ(encoded.ends().back(), encoded.bytes().size());
    std::uint64_t begin = 0;
    for (std::size_t row = 0; row < expected.size(); ++row) {
      std::uint64_t const end = encoded.ends()[row];
      CHECK(decode(encoded.bytes().subspan(begin, end - begin)) == expected[row]);
      begin = end;
    }
  }
}

TEST(turnstile_lets_items_pass_in_order) {
  Turnstile turnstile;
  std::vector<std::size_t> passed;  // no lock: one at a time
  parallel_for(500, 4, [&](int, std::size_t item) {
    CHECK(turnstile.pass(item, [&] { passed.push_back(item); }));
  });
  CHECK_EQ(passed.size(), 500u);
  CHECK(std::is_sorted(passed.begin(), passed.end()));
}

TEST(turnstile_failure_stops_what_comes_after_and_nothing_before) {
  for (int round = 0; round < 20; ++round) {
    Turnstile turnstile;
    std::vector<std::size_t> passed;
    bool threw = false;
    try {
      parallel_for(100, 4, [&](int, std::size_t item) {
        if (item == 40) {
          turnstile.fail(item);
          throw std::runtime_error("item 40");
        }
        turnstile.pass(item, [&] { passed.push_back(item); });
      });
    } catch (std::runtime_error const&) {
      threw = true;
    }
    CHECK(threw);
    CHECK_EQ(passed.size(), 40u);
    CHECK_EQ(passed.back(), 39u);
  }
}

Chunked<StringColumn> many_texts(std::size_t n) {
  Rng rng(22);
  std::vector<std::optional<std::string>> texts;
  for (std::size_t i = 0; i < n; ++i)
    texts.push_back(rng.below(20) == 0 ? std::nullopt : std::optional(random_text(rng, 30, 4000)));
  Chunked<StringColumn> column;
  column.append(column_of(texts));
  return column;
}

template <typename T>
void check_same(Buffer<T> const& a, Buffer<T> const& b) {
  CHECK_EQ(a.size(), b.size());
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
}

std::vector<std::uint32_t> const kOnce{1};  // the weight of the only column

TEST(lexical_build_is_the_same_with_any_number_of_threads) {
  std::size_t const n = 5000;
  std::vector<Chunked<StringColumn>> const columns{many_texts(n)};
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  auto const build = [&](int threads) {
    return build_lexical("text", columns, kOnce, order, *word_analyzer(), threads);
  };
  auto const alone = build(1);
  for (int const threads : {2, 3, 8}) {
    auto const many = build(threads);
    check_same(many->parts().doc_lengths, alone->parts().doc_lengths);
    check_same(many->parts().terms.offsets, alone->parts().terms.offsets);
    check_same(many->parts().terms.bytes, alone->parts().terms.bytes);
    CHECK(many->parts().forward_offsets.wide() == alone->parts().forward_offsets.wide());
    check_same(many->parts().forward_bytes, alone->parts().forward_bytes);
    check_same(many->parts().posting_offsets, alone->parts().posting_offsets);
    check_same(many->parts().postings, alone->parts().postings);
    check_same(many->parts().run_offsets, alone->parts().run_offsets);
    check_same(many->parts().escape_offsets, alone->parts().escape_offsets);
  }
}

TEST(lexical_build_joins_a_column_as_often_as_its_weight_says) {
  std::size_t const n = 3000;
  Chunked<StringColumn> const title = many_texts(n), body = many_texts(n);
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  auto const build = [&](std::vector<Chunked<StringColumn>> const& columns,
                         std::vector<std::uint32_t> const& weights) {
    return build_lexical("text", columns, weights, order, *word_analyzer(), 2);
  };
  auto const weighted = build({title, body}, {3, 1});
  auto const copied = build({title, title, title, body}, {1, 1, 1, 1});
  check_same(weighted->parts().doc_lengths, copied->parts().doc_lengths);
  check_same(weighted->parts().terms.bytes, copied->parts().terms.bytes);
  check_same(weighted->parts().forward_bytes, copied->parts().forward_bytes);
  check_same(weighted->parts().postings, copied->parts().postings);
}

TEST(lexical_build_ends_where_progress_throws) {
  std::size_t const n = 5000;
  std::vector<Chunked<StringColumn>> const columns{many_texts(n)};
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  for (int const threads : {1, 4}) {
    std::size_t told = 0;
    bool threw = false;
    try {
      build_lexical("text", columns, kOnce, order, *word_analyzer(), threads,
                    [&](std::size_t done) {
                      CHECK(done > told && done < n);
                      told = done;
                      throw std::runtime_error("enough");
                    });
    } catch (std::runtime_error const&) {
      threw = true;
    }
    // Another thread may have taken every batch that is told of.
    CHECK_EQ(threw, told > 0);
    CHECK(threads > 1 || threw);
  }
}

}  // namespace
}  // namespace hyrecall::testing
