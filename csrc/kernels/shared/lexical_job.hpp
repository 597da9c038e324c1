// Text queries of a batch and the lexical columns that they read, as kernels see them.
#pragma once

#include <cstdint>
#include <span>

#include "core/formulas.hpp"
#include "core/types.hpp"
#include "kernels/shared/postings.hpp"

namespace hyrecall {

// A lexical column of one segment, as docs/kernels/lexical.md has it.
struct LexicalSegment {
  std::uint32_t posting_width;           // postings have the fields of this PostingFormat
  std::uint32_t const* doc_lengths;      // [n_rows]
  std::uint64_t const* posting_offsets;  // [n_terms + 1]
  std::uint32_t const* postings;
  std::uint32_t const* run_offsets;  // [n_terms + 1]
  PostingRun const* runs;
  std::uint32_t const* escape_offsets;  // [n_terms + 1]
  PostingEscape const* escapes;
};

// A list that the host made for one query on one segment, of a phrase or a prefix: places in the
// batch's arrays. Its postings have the segment's format.
struct OwnList {
  std::uint32_t posting_begin;
  std::uint32_t n_postings;
  std::uint32_t run_begin;
  std::uint32_t n_runs;
  std::uint32_t escape_begin;
  std::uint32_t n_escapes;
};

// Where a leaf occurs in a segment: kNone32 nowhere, from kFirstOwnList on an own list, below a
// term. Terms are fewer than 2^31, as their offsets are those of an Arrow list.
inline constexpr std::uint32_t kFirstOwnList = 0x80000000u;

// A query's leaves are summed in their order.
struct LexicalText {
  std::uint32_t leaf_begin;  // into weights, shifts; times the number of segments, into lists
  std::uint32_t n_leaves;
  std::uint32_t scale;          // number of its LengthScale
  std::uint32_t is_positive;    // a document matches if its score is above 0
  std::uint32_t match_begin;    // into match_steps
  std::uint32_t n_match_steps;  // 0: any leaf matches
};

// Candidates of a query in a document tile, in depths; equal scores apart. To choose among fewer
// costs more than it spares.
inline constexpr std::uint32_t kMostOfDocTile = 4;

// Whoever evaluates a tree keeps a bit a leaf.
inline constexpr std::uint32_t kMostTreeLeaves = 32;

// A step of a tree in postfix order. No tree needs more than 32 levels (engine/lexical/on_device).
struct MatchStep {
  enum class Kind : std::uint32_t {
    kAnyLeaf,    // pushes whether the document holds one of `leaves`
    kAllLeaves,  // all of them
    kAnd,        // joins the last two
    kOr,
  };
  Kind kind;
  std::uint32_t leaves;  // of the first two, a bit each
};

// Whether a document with these leaves matches.
HYRECALL_HD inline bool matches_tree(MatchStep const* steps, std::uint32_t n,
                                     std::uint32_t leaves) {
  std::uint32_t levels = 0;  // the last in bit 0
  for (std::uint32_t i = 0; i < n; ++i) {
    MatchStep const step = steps[i];
    if (step.kind == MatchStep::Kind::kAnyLeaf) {
      levels = levels << 1 | ((leaves & step.leaves) != 0 ? 1 : 0);
    } else if (step.kind == MatchStep::Kind::kAllLeaves) {
      levels = levels << 1 | ((leaves & step.leaves) == step.leaves ? 1 : 0);
    } else {
      std::uint32_t const both =
          step.kind == MatchStep::Kind::kAnd ? levels & levels >> 1 : levels | levels >> 1;
      levels = (levels >> 1 & ~1u) | (both & 1);
    }
  }
  return (levels & 1) != 0;
}

// What a term adds to a document. k1 and delta are read by BM25L alone, which rounds them once.
HYRECALL_HD inline float leaf_impact(Bm25Variant variant, float k1, float delta, float weight,
                                     float shift, float term_freq, float length_norm) {
  if (variant == Bm25Variant::kPlus) return bm25_plus_impact(weight, shift, term_freq, length_norm);
  if (variant == Bm25Variant::kLong)
    return bm25_long_impact(weight, term_freq, length_norm, k1, delta);
  return bm25_impact(weight, term_freq, length_norm);
}

// Lengths that a compact posting can say; their norms are made once for each scale.
inline constexpr std::uint32_t kNormLengths = 256;
static_assert(PostingFormat(PostingFormat::kCompact).max_length() + 1 == kNormLengths);

// Empty in a job of a dense column.
struct LexicalJob {
  LexicalSegment const* segments;  // [n_segments]
  LexicalText const* texts;        // [n_queries]
  float const* weights;            // by leaf
  float const* shifts;             // by leaf, of BM25+; null of the other variants
  std::uint32_t const* lists;      // by leaf and segment
  OwnList const* own_lists;
  std::uint32_t const* own_postings;  // then 0 up to a whole load of 16 bytes
  PostingRun const* own_runs;
  PostingEscape const* own_escapes;
  MatchStep const* match_steps;
  LengthScale const* scales;  // [n_scales]
  std::uint32_t n_scales;
  Bm25 bm25;
  float* norms;  // [n_scales, kNormLengths] made by a kernel
};

// Text queries of a batch in host memory: the arrays of LexicalJob.
struct TextQueries {
  std::span<LexicalText const> texts;  // [n_queries]; those that a search skips are not read
  std::span<float const> weights;
  std::span<float const> shifts;  // of BM25+; empty of the other variants
  std::span<std::uint32_t const> lists;
  std::span<OwnList const> own_lists;
  std::span<std::uint32_t const> own_postings;
  std::span<PostingRun const> own_runs;
  std::span<PostingEscape const> own_escapes;
  std::span<MatchStep const> match_steps;
  std::span<LengthScale const> scales;
  Bm25 bm25;
};

}  // namespace hyrecall
