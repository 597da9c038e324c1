// The text queries of an arm as flat arrays for a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/text_queries.hpp"
#include "engine/lexical/bm25.hpp"

namespace hyrecall {

// The arrays of TextQueries, and their memory.
class DeviceTexts {
 public:
  // group_of: [n_queries]; set to kNone32 for a query that can find nothing on the device.
  DeviceTexts(Snapshot const& snapshot, Bm25 const& bm25, std::span<Bm25Query const> scorers,
              ArmPostings const& postings, std::vector<std::uint32_t>& group_of);

  device::TextQueries queries() const;

 private:
  bool occurs(std::size_t n_leaves, std::size_t query, ArmPostings const& postings) const;
  LexicalText add(std::size_t number, Bm25Query const& scorer, ArmPostings const& postings);
  std::uint32_t list_of(LeafPostings const& leaf, bool is_term);
  std::uint32_t number_of(LengthScale scale);

  std::size_t n_segments_;
  Bm25 bm25_;
  std::vector<LexicalText> texts_;
  std::vector<float> weights_;
  std::vector<float> shifts_;
  std::vector<std::uint32_t> lists_;
  std::vector<OwnList> own_lists_;
  std::vector<std::uint32_t> own_postings_;
  std::vector<PostingRun> own_runs_;
  std::vector<PostingEscape> own_escapes_;
  std::vector<MatchStep> match_steps_;
  std::vector<LengthScale> scales_;
  std::vector<std::uint32_t> numbers_;  // of scales, by hash: open addressing, kNone32 is free
};

}  // namespace hyrecall
