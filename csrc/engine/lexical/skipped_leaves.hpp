// Leaves that a tile's sums may leave out, because together they cannot lift a row to the
// threshold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_cursor.hpp"

namespace hyrecall {

// More than a leaf adds to any document of a list: of positive queries, whose impacts rise with the
// frequency and fall with the length.
float greatest_impact(Bm25Query const& query, std::size_t leaf, PostingList const& list,
                      std::uint32_t min_length);

// Chooses the leaves that a tile leaves out (MaxScore, Turtle and Flood 1995, by tiles).
//
// A row that reaches the threshold T has a sum over the other leaves of at least T - B, where B is
// the sum of the greatest impacts of those left out. Frequent words have the most postings and the
// least impacts, so few rows remain to be scored in full. Float sums of n leaves in any grouping
// differ by less than n x 2^-22 of them, which cut() allows for.
//
// Legal calls: begin() first, with the greatest impacts by place; choose() before the others.
class SkippedLeaves {
 public:
  void begin(std::span<float const> greatest);
  // Chooses for a threshold above 0; whether a leaf is left out.
  bool choose(float threshold);
  bool skips(std::size_t place) const { return rank_[place] < n_skipped_; }
  // What the sum of the others must reach.
  float cut() const { return cut_; }
  // What a row's sum must reach if its score reaches the threshold, whatever the order of the sum.
  float full_cut() const { return full_cut_; }
  // What became of a tile.
  struct Work {
    std::uint64_t n_added = 0;     // postings
    std::uint64_t n_left_out = 0;  // likewise
    std::size_t n_asked = 0;       // how often the bits of a row were asked for
    std::size_t n_rows = 0;        // that are to be scored in full
    std::size_t n_found = 0;       // of these, those that reached the threshold
  };
  // Whether scoring the rows costs less than adding all postings. It does not where many rows are
  // equal. n_found is not known yet.
  bool pays(Work const& work);
  // Tells what a tile cost, for the next choice.
  void tell(Work const& work);

 private:
  std::vector<float> greatest_;        // by place
  std::vector<std::uint32_t> rising_;  // places by greatest impact
  std::vector<std::uint32_t> rank_;    // of a place among them
  std::size_t n_skipped_ = 0;
  double slack_ = 0.0;
  double reach_ = 0.0;  // the share of the threshold that those left out may add
  float cut_ = 0.0f;
  float full_cut_ = 0.0f;
};

}  // namespace hyrecall
