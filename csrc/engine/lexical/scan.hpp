// The lexical arms of a batch on one snapshot: each query's ranked lists.
#pragma once

#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

using LexicalScorers = std::vector<std::vector<Bm25Query>>;  // [lexical arm][query]
using LexicalPostings = std::vector<ArmPostings>;            // [lexical arm]

// Which queries are searched here, as [arm][query].
using LexicalChoice = std::vector<std::vector<bool>>;

// The best `depth` rows of each chosen query in each lexical arm, as [arm][query]; the lists of
// other queries are empty.
std::vector<std::vector<std::vector<Candidate>>> scan_lexical_arms(
    Snapshot const& snapshot, BatchRequest const& request, ResolvedScopes const& scopes,
    Audiences const& audiences, LexicalScorers const& scorers, LexicalPostings const& postings,
    LexicalChoice const& chosen);

}  // namespace hyrecall
