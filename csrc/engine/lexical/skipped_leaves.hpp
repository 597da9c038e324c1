// Chooses leaves that a tile's sums may leave out, because together they cannot lift a row to the
// threshold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_cursor.hpp"

namespace hyrecall {

// An upper bound of a leaf's impact on any document of a list. Only for positive queries, whose
// impacts rise with the frequency and fall with the length.
float greatest_impact(Bm25Query const& query, std::size_t leaf, PostingList const& list,
                      std::uint32_t min_length);

// Chooses the leaves that a tile leaves out (MaxScore, Turtle and Flood 1995, by tiles).
//
// A row that reaches the threshold T has a sum over the other leaves of at least T - B, where B is
// the sum of the greatest impacts of the leaves left out. Frequent words have the most postings and
// the least impacts, so few rows remain to be scored in full. Float sums of n leaves in any
// grouping differ by less than n x 2^-22 of the sum, which cut() allows for.
//
// Legal calls: begin() first, with the greatest impacts by place; choose() before the others.
class SkippedLeaves {
 public:
  void begin(std::span<float const> greatest);
  // Chooses for a threshold above 0; returns whether a leaf is left out.
  bool choose(float threshold);
  bool skips(std::size_t place) const { return rank_[place] < n_skipped_; }
  // The least sum of the other leaves with which a row can reach the threshold.
  float cut() const { return cut_; }
  // The least full sum of a row whose score reaches the threshold, in any order of adding.
  float full_cut() const { return full_cut_; }
  // The work on a tile.
  struct Work {
    std::uint64_t n_added = 0;     // postings
    std::uint64_t n_left_out = 0;  // postings
    std::size_t n_asked = 0;       // how often the bits of a row were asked for
    std::size_t n_rows = 0;        // rows to be scored in full
    std::size_t n_found = 0;       // rows of these that reached the threshold
  };
  // Whether scoring the rows costs less than adding all postings; false if many rows have about the
  // same score. Does not use n_found, which is not known yet.
  bool pays(Work const& work);
  // Reports the work on a tile, for the next choice.
  void tell(Work const& work);

 private:
  std::vector<float> greatest_;        // by place
  std::vector<std::uint32_t> rising_;  // places by greatest impact
  std::vector<std::uint32_t> rank_;    // rank of each place in rising_
  std::size_t n_skipped_ = 0;
  double slack_ = 0.0;
  double reach_ = 0.0;  // the share of the threshold that the leaves left out may add
  float cut_ = 0.0f;
  float full_cut_ = 0.0f;
};

}  // namespace hyrecall
