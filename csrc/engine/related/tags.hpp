// The tags of a list column as a graph: tags of one document are one hop apart. All counts and hops
// are those of the query's scope; a filter only narrows what is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/scope/audience.hpp"
#include "engine/segment/keys.hpp"
#include "engine/top_k.hpp"
#include "text/analyzer.hpp"

namespace hyrecall {

struct TagParams {
  std::size_t attribute = 0;
  int hops = 1;          // to how far a tag may be from those the query names
  bool partial = false;  // tokens also match by containing each other, from three letters on
  std::size_t depth = 100;
};

// What one batch may see of one snapshot.
struct AudienceView {
  Snapshot const& snapshot;
  BatchRequest const& request;
  ResolvedScopes const& scopes;
  Audience const& audience;
};

// [n_queries] each query's best documents: by the tags that share a token with it, and the tags
// near those.
std::vector<std::vector<Candidate>> tag_candidates(
    AudienceView const& view, text::Analyzer const& analyzer,
    std::span<std::optional<std::string> const> queries, TagParams const& params);

// [n_queries] up to n documents beside each query's results that share tags with them: score is the
// number of shared tags. with_beside: where there are fewer than n, documents that have tags one
// hop from those of the results come after them, those with most such tags first; their score is 0.
std::vector<std::vector<Candidate>> related_documents(
    AudienceView const& view, std::span<std::vector<ListedDoc> const> results,
    std::size_t attribute, std::size_t n, bool with_beside);

}  // namespace hyrecall
