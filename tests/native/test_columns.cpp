// What segments and their columns tell of themselves, and how filters are made.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/finite.hpp"
#include "engine/lexical/column.hpp"
#include "engine/scope/filter.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

template <typename F>
std::string error_of(F const& call) {
  try {
    call();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

TEST(columns_know_which_rows_have_a_text) {
  Rng rng(61);
  std::vector<Documents> documents;
  std::vector<std::shared_ptr<LexicalColumn const>> columns;
  for (std::size_t n : {30, 70}) {
    documents.push_back(random_documents(rng, n, 3, 20));
    columns.push_back(lexical_of(documents.back()));
  }
  std::vector<std::uint32_t> source, row;
  for (int i = 0; i < 300; ++i) {
    source.push_back(static_cast<std::uint32_t>(rng.below(2)));
    row.push_back(static_cast<Row>(rng.below(documents[source.back()].size())));
  }
  std::vector<std::uint8_t> const found = rows_with_text(columns, source, row);
  CHECK_EQ(found.size(), row.size());
  std::size_t n_without = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    bool const has = documents[source[i]].texts[row[i]].has_value();
    CHECK_EQ(found[i] == 1, has);
    n_without += !has;
  }
  CHECK(n_without > 5);
  std::string const wish = "hyrecall: expected a row of the columns; please report this";
  CHECK_EQ(error_of([&] { rows_with_text(columns, std::vector<std::uint32_t>{2}, {{0}}); }), wish);
  CHECK_EQ(error_of([&] { rows_with_text(columns, std::vector<std::uint32_t>{0}, {{30}}); }), wish);
}

TEST(columns_give_codes_in_the_order_of_their_values_nulls_first) {
  std::vector<double> const values{2.5, -1.0, 0.0, 7.0};
  std::uint8_t const valid = 0b1011;  // the third is null
  AttributeColumn const column =
      build_scalar_column(std::span<double const>(values), ValidityBits{&valid, 0});
  std::vector<std::int64_t> const codes = column.sort_codes();
  CHECK_EQ(codes.size(), values.size());
  CHECK_EQ(codes[2], std::numeric_limits<std::int64_t>::min());
  CHECK(codes[2] < codes[1] && codes[1] < codes[0] && codes[0] < codes[3]);
  std::vector<std::int64_t> const offsets{0, 1, 2, 3, 4};
  AttributeColumn const lists =
      build_list_column(offsets, {}, std::span<double const>(values), ValidityBits{});
  CHECK(error_of([&] { lists.sort_codes(); }).find("a column without lists") != std::string::npos);
}

TEST(columns_of_a_segment_are_counted_in_its_bytes) {
  Rng rng(62);
  auto const segment = segment_of(random_documents(rng, 200, 5, 20));
  Segment::Bytes const bytes = segment->bytes();
  CHECK_EQ(bytes.cells, segment->p.cells.bytes());
  CHECK_EQ(bytes.keys, segment->p.keys.bytes());
  CHECK_EQ(bytes.attributes, std::size_t{0});
  CHECK_EQ(bytes.statistics, std::size_t{0});  // made by whoever asks first
  CHECK_EQ(segment->text_statistics().size(), std::size_t{1});
  CHECK_EQ(segment->bytes().statistics, 5 * sizeof(CellTextStatistics));
}

TEST(filter_programs_hold_what_they_are_made_of) {
  using Kind = FilterProgram::Kind;
  FilterProgram const codes = FilterProgram::codes_between(3, -5, 7);
  CHECK(codes.kind == Kind::kCodesBetween);
  CHECK_EQ(codes.column, 3u);
  CHECK(codes.low == -5 && codes.high == 7);
  FilterProgram const text = FilterProgram::text_between(1, "a", std::nullopt);
  CHECK(text.kind == Kind::kTextBetween && text.text_low == "a" && !text.text_high);
  CHECK(FilterProgram::codes_any_of(0, {4, 2}).codes == (std::vector<std::int64_t>{4, 2}));
  CHECK(FilterProgram::text_any_of(0, {"x"}).texts == (std::vector<std::string>{"x"}));
  CHECK(FilterProgram::is_null(2).kind == Kind::kIsNull);
  FilterProgram const both = FilterProgram::all_of({codes, text});
  CHECK(both.kind == Kind::kAnd && both.children.size() == 2 && both.children[0].low == -5);
  CHECK(FilterProgram::any_of({}).kind == Kind::kOr);
  FilterProgram const other = FilterProgram::complement(both);
  CHECK(other.kind == Kind::kNot && other.children.at(0).children.size() == 2);
}

TEST(filter_programs_have_1000_levels_and_no_more) {
  FilterProgram program = FilterProgram::is_null(0);
  for (int level = 1; level < 1000; ++level) program = FilterProgram::complement(program);
  std::string const wish = "filter: expected at most 1000 levels, got more";
  CHECK_EQ(error_of([&] { FilterProgram::complement(program); }), wish);
  CHECK_EQ(error_of([&] { FilterProgram::all_of({FilterProgram::is_null(1), program}); }), wish);
}

TEST(columns_of_numbers_tell_finite_values_from_others) {
  std::vector<float> values{0.0f, -0.0f, std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(), -3.5f};
  CHECK(all_finite(values));
  CHECK(all_finite({}));
  float const infinity = std::numeric_limits<float>::infinity();
  for (float const odd : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::signaling_NaN()}) {
    for (std::size_t at = 0; at < values.size(); ++at) {
      std::vector<float> changed = values;
      changed[at] = odd;
      CHECK(!all_finite(changed));
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
