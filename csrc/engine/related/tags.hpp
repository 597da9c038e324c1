// The tags of a list column as a graph: tags of one document are one hop apart. All counts and hops
// are those of the query's scope; a filter only narrows what is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/by_query.hpp"
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
// number of shared tags.
std::vector<std::vector<Candidate>> related_documents(
    AudienceView const& view, std::span<std::vector<ListedDoc> const> results,
    std::size_t attribute, std::size_t n);

// ---- the same where the rows of a scope lie in several indexes: the steps that each of them
// takes. What a tag has, and what is near it, is then known only from all of them.

struct TagCount {
  KeyValue tag;              // lies in the snapshot
  std::int64_t n_documents;  // of the query's scope that have it, in this index
};

// [n_queries] the tags that share a token with a query, rising.
std::vector<std::vector<TagCount>> named_tags(AudienceView const& view,
                                              text::Analyzer const& analyzer,
                                              std::span<std::optional<std::string> const> queries,
                                              std::size_t attribute, bool partial);

// [n_queries] the tags that are one hop from those of a query, rising.
std::vector<std::vector<KeyValue>> tags_beside(AudienceView const& view,
                                               ByQuery<KeyValue> const& tags,
                                               std::size_t attribute);

// Tags at their hops from those that each query names.
struct NearTags {
  ByQuery<KeyValue> tags;
  std::span<std::uint8_t const> hops;            // of each tag
  std::span<std::int64_t const> most_documents;  // [n_queries] that one of the named tags has
};

// [n_queries] what tag_candidates lists where these are all tags that a query reaches.
std::vector<std::vector<Candidate>> documents_near(AudienceView const& view, NearTags const& near,
                                                   std::size_t attribute, std::size_t depth);

// [n_queries] what related_documents lists where a query's results have these tags. results: their
// insertion numbers.
std::vector<std::vector<Candidate>> documents_sharing(AudienceView const& view,
                                                      ByQuery<KeyValue> const& tags,
                                                      ByQuery<Seq> const& results,
                                                      std::size_t attribute, std::size_t n);

}  // namespace hyrecall
