// Text queries of a batch as a device takes them: flat arrays in host memory, meaning what
// kernels/shared/lexical_job.hpp says.
#pragma once

#include <span>

#include "kernels/shared/lexical_job.hpp"

namespace hyrecall::device {

struct TextQueries {
  std::span<LexicalText const> texts;    // [n_queries]; those that a search skips are not read
  std::span<float const> weights;        // by leaf
  std::span<float const> shifts;         // by leaf, of BM25+; empty of the other variants
  std::span<std::uint32_t const> lists;  // by leaf and segment
  std::span<OwnList const> own_lists;
  std::span<std::uint32_t const> own_postings;  // then 0 up to a multiple of 4
  std::span<PostingRun const> own_runs;
  std::span<PostingEscape const> own_escapes;
  std::span<MatchStep const> match_steps;
  std::span<LengthScale const> scales;
  Bm25 bm25;
};

}  // namespace hyrecall::device
