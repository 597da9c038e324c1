// Sums, sifts and choices of packed postings on every instruction set against plain loops.
#include <algorithm>
#include <set>
#include <vector>

#include "kernels/cpu/isa.hpp"
#include "kernels/shared/postings.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

// Sets that sum, sift and pick as the plain definition does; a planted sift that loses a block's
// last score, and a planted choice of one bit less.
TEST(score_kernels_of_every_instruction_set_equal_the_definition) {
  Rng rng(12);
  std::vector<cpu::ScoreKernels> sets;
  for (cpu::Kernels const& found : cpu::found_kernels()) sets.push_back(found.scores);
  bool planted_seen = false;
  bool other_choice_seen = false;
  for (int round = 0; round < 300; ++round) {
    std::size_t const n_postings = rng.below(std::size_t{400});
    std::vector<std::uint8_t> postings(3 * n_postings);
    std::vector<float> table(cpu::kCodes);
    for (float& value : table) value = static_cast<float>(rng.below(8u)) / 4.0f;
    std::set<Row> rows;
    while (rows.size() < n_postings) rows.insert(rng.below(1024u));
    std::size_t at = 0;
    PostingFormat const format(PostingFormat::kCompact);
    for (Row row : rows)
      format.write(postings.data() + 3 * at++, row, 1 + rng.below(9u), rng.below(300u));
    std::vector<float> expected(1024, 0.0f);
    for (std::size_t i = 0; i < n_postings; ++i) {
      std::uint32_t const bits = format.read(postings.data() + 3 * i);
      expected[PostingFormat::row(bits)] += table[bits >> kDocTileBits];
    }
    float const threshold = 0.25f + static_cast<float>(rng.below(8u)) / 4.0f;
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < 1024; ++i) {
      if (expected[i] >= threshold) wanted.push_back(i);
    }
    std::vector<std::uint64_t> words(kDocTileRows / 64);
    for (std::uint64_t& word : words) word = rng.below(std::uint64_t{1} << 62) * 5;
    auto const pick = [&] {
      std::vector<std::uint8_t> out;
      for (std::size_t i = 0; i < n_postings; ++i) {
        Row const row = PostingFormat::row(format.read(postings.data() + 3 * i));
        if ((words[row / 64] >> (row % 64) & 1) != 0)
          out.insert(out.end(), postings.data() + 3 * i, postings.data() + 3 * i + 3);
      }
      return out;
    };
    std::vector<std::uint8_t> const chosen = pick();
    for (cpu::ScoreKernels const& set : sets) {
      std::vector<std::uint8_t> picked(3 * n_postings + cpu::kSelectSpare);
      picked.resize(3 * set.select_coded(postings.data(), n_postings, words.data(), picked.data()));
      CHECK(picked == chosen);
      std::vector<float> scores(1024, 0.0f);
      set.add_coded(postings.data(), n_postings, table.data(), scores.data());
      CHECK(scores == expected);
      std::vector<std::uint32_t> places(1024 + cpu::kSiftSpare);
      std::vector<float> values(1024 + cpu::kSiftSpare);
      std::size_t const n = set.sift(scores.data(), 1024, threshold, places.data(), values.data());
      CHECK_EQ(n, wanted.size());
      for (std::size_t i = 0; i < n; ++i) {
        CHECK_EQ(places[i], wanted[i]);
        CHECK_EQ(values[i], expected[wanted[i]]);
      }
      CHECK(std::all_of(scores.begin(), scores.end(), [](float s) { return s == 0.0f; }));
    }
    words[3] &= words[3] - 1;
    other_choice_seen |= pick() != chosen;
    std::erase_if(wanted, [](std::uint32_t i) { return i % cpu::kSiftRows == 63; });
    planted_seen |= wanted.size() !=
                    static_cast<std::size_t>(std::count_if(
                        expected.begin(), expected.end(), [&](float s) { return s >= threshold; }));
  }
  CHECK(planted_seen);
  CHECK(other_choice_seen);
}

}  // namespace
}  // namespace hyrecall::testing
